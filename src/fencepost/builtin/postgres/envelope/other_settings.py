"""Keys of Debezium's Postgres connector that have no effect here, and those that are refused, each with its reason."""

from collections.abc import Iterator, Mapping

WITHOUT_EFFECT = {
    "advanced.metrics.enable": "the connector's metrics are always served",
    "connection.validation.timeout.ms": "connections are checked within the time-out of connecting",
    "create.slot.command.timeout": "the slot's creation waits for running transactions, and says so in the status",
    "database.query.timeout.ms": "queries end with the connection that they need",
    "database.server.name": "`topic.prefix` is its name since Debezium 2",
    "errors.max.retries": "the worker retries what may succeed later",
    "event.converting.failure.handling.mode": "a value that does not fit its type fails the task",
    "executor.shutdown.timeout.ms": "the worker ends tasks",
    "extended.headers.enabled": "records have no headers of the runtime's",
    "flush.lsn.source": "the slot moves with committed Kafka transactions",
    "include.schema.changes": "Debezium's Postgres connector has no topic for them either",
    "incremental.snapshot.allow.schema.changes": "rows that a signal asks for are read as the table is then",
    "incremental.snapshot.chunk.size": "rows that a signal asks for are read in chunks of blocks",
    "incremental.snapshot.watermarking.strategy": "nothing is written to the database for a signal",
    "internal.log.position.check.enable": "positions are always checked",
    "legacy.snapshot.max.threads": "a snapshot is read in chunks, by the tasks of Spark",
    "lsn.flush.mode": "the slot moves with committed Kafka transactions",
    "lsn.flush.timeout.action": "the slot moves with committed Kafka transactions",
    "lsn.flush.timeout.ms": "the slot moves with committed Kafka transactions",
    "max.batch.size": "records are sent in batches of Kafka",
    "max.queue.size": "there is no queue between reading and sending",
    "max.queue.size.in.bytes": "there is no queue between reading and sending",
    "offset.mismatch.strategy": "offsets and slot are compared at each start",
    "poll.interval.ms": "the log is read as it grows",
    "query.fetch.size": "rows are read by COPY",
    "queue.provider.type": "there is no queue between reading and sending",
    "retriable.restart.connector.wait.ms": "the worker retries what may succeed later",
    "schema.refresh.mode": "schemas are those that the log announces",
    "slot.max.retries": "the worker retries what may succeed later",
    "slot.retry.delay.ms": "the worker retries what may succeed later",
    "signal.poll.interval.ms": "signals are read from the log",
    "snapshot.fetch.size": "rows are read by COPY",
    "snapshot.isolation.mode": "a snapshot is one consistent point of all tables",
    "snapshot.lock.timeout.ms": "a snapshot takes no locks",
    "snapshot.max.threads": "a snapshot is read in chunks, by the tasks of Spark",
    "snapshot.max.threads.multiplier": "a snapshot is read in chunks, by the tasks of Spark",
    "snapshot.tables.order.by.row.count": "a snapshot is read in chunks, by the tasks of Spark",
    "statistics.metrics.enabled": "the connector's metrics are always served",
    "status.update.interval.ms": "the slot moves with committed Kafka transactions",
    "table.ignore.builtin": "Postgres' own tables are never captured",
    "topic.cache.size": "names of topics are kept with their tables",
    "xmin.fetch.interval.ms": "the slot's xmin is a metric; the field xmin of the source block stays null",
}
"""Keys that may stand in a config, and why they change nothing."""

_CLASSES = "Java classes cannot be loaded here; use a transform, or Debezium's own connector"
_POINT = "rows are read at the consistent point of the slot"
REFUSED: Mapping[str, tuple[str, str]] = {
    "converters": ("", _CLASSES),
    "post.processors": ("", _CLASSES),
    "sourceinfo.struct.maker": ("io.debezium.connector.postgresql.PostgresSourceInfoStructMaker", _CLASSES),
    "transaction.metadata.factory": ("io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory", _CLASSES),
    "database.sslfactory": ("", _CLASSES),
    "database.initial.statements": ("", "sessions have the settings by which values are read; use ALTER ROLE ... SET"),
    "event.processing.failure.handling.mode": ("fail", "a change that cannot be read is never skipped"),
    "include.schema.comments": ("false", "comments of tables and columns are not read"),
    "notification.enabled.channels": ("", "progress is in the connector's status and metrics"),
    "read.only": ("false", "signals are rows that somebody inserts; the connector itself writes nothing"),
    "replica.identity.autoset.values": ("", "tables are not altered; use ALTER TABLE ... REPLICA IDENTITY"),
    "skip.messages.without.change": ("false", "each change of the log is written; use a transform with a predicate"),
    "slot.seek.to.known.offset.on.start": ("false", "a slot that is not at the committed offset is an error"),
    "slot.stream.params": ("", "the connector chooses pgoutput's options"),
    "snapshot.delay.ms": ("0", "create the connector when the snapshot is to begin, or pause it"),
    "snapshot.include.collection.list": ("", "a snapshot has all captured tables"),
    "snapshot.locking.mode": ("none", "a snapshot takes no locks"),
    "snapshot.query.mode": ("select_all", _POINT),
    "snapshot.select.statement.overrides": ("", "a snapshot has all rows; filter by a publication's WHERE, or a view"),
    "streaming.delay.ms": ("0", "streaming begins when the snapshot is complete"),
}  # fmt: skip
"""Keys that are refused unless they have Debezium's default, which comes first; and why."""

REFUSED_PREFIXES = {
    "custom.metric.tags": "metrics have the connector's name as a tag",
    "guardrail.": "the number of tables is not limited",
    "notification.": "progress is in the connector's status and metrics",
    "openlineage.": "lineage is not reported",
    "signal.": "signals are read from the log only",
    "snapshot.mode.": "these modes are classes of Debezium's",
    "snapshot.select.statement.overrides.": "a snapshot has all rows; filter by a publication's WHERE, or a view",
}
"""Beginnings of keys that are refused."""


def faults(config: Mapping[str, object]) -> list[str]:
    """Return a text for each key that is refused."""
    return [f"Configuration {key} is not supported: {why}" for key, why in _refused(config)]


def notes(config: Mapping[str, object]) -> list[str]:
    """Return a text for each key that has no effect."""
    return [f"Ignoring '{key}': {why}" for key, why in WITHOUT_EFFECT.items() if key in config]


def _refused(config: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    supported = ("signal.data.collection", "signal.enabled.channels", *WITHOUT_EFFECT)
    for key, value in config.items():
        if key in REFUSED:
            default, why = REFUSED[key]
            if value is not None and str(value).strip().lower() != default.lower():
                yield key, why
        elif key not in supported:
            found = next((why for prefix, why in REFUSED_PREFIXES.items() if key.startswith(prefix)), None)
            if found is not None:
                yield key, found
