"""Fencepost's own defaults of client settings, for each kind of client, and what users' settings may change of them."""

from collections.abc import Mapping
from typing import Any

from fencepost.kafka.setting.batch_settings import lacking
from fencepost.kafka.setting.table import (
    AUTO,
    BATCH,
    CLIENT,
    CLIENTS,
    JAVAS_PARTITIONER,
    LIBRDKAFKA,
    RULES,
    ClientKind,
)
from fencepost.kafka.setting.translation import Conf, SettingsError, Translated, fitted, text_of, translate

_PRODUCER_BASE: Conf = {
    **JAVAS_PARTITIONER,
    "acks": "all",
    # Also when exactly-once is off: retries then neither reorder nor duplicate.
    "enable.idempotence": "true",
    # Waiting pays only with large transactions; the boundary flushes in any case.
    "linger.ms": "1",
    # 64-128 KiB cost a third of the throughput of small transactions.
    "batch.size": "524288",
    "batch.num.messages": "100000",
    # Bounds the memory of a producer, with room for a batch of short records.
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "131072",
    # Successful deliveries are only counted; a Python callback for each of them would take most of the time.
    "delivery.report.only.error": True,
    # At 100, every send_offsets_to_transaction after the first waits 100 ms for a retry.
    "retry.backoff.ms": "5",
    "retry.backoff.max.ms": "1000",
    # init_transactions connects to a coordinator: 16 ms instead of 54.
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "1000",
    # Strikes are detected from log lines about lost connections.
    "log.connection.close": "true",
}

_READER_BASE: Conf = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "isolation.level": "read_committed",
    # The client reports the end of a log at once, as an event.
    "enable.partition.eof": "true",
    # At 500, the default, reading to the end of an idle log takes 500 ms.
    "fetch.wait.max.ms": "10",
    "auto.offset.reset": "error",
    "allow.auto.create.topics": "false",
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "1000",
}

_MEMBER_BASE: Conf = {
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "1000",
    # A broker also sends a batch that is larger than `fetch.max.bytes`. At 100 MB, the default, the client would
    # request such a batch and refuse it for ever.
    "receive.message.max.bytes": "2147483647",
}
_MANY_RECORDS: Conf = {
    # At 1000, a partition whose queue was full pauses for most of a second after the queue is drained.
    "fetch.queue.backoff.ms": "5",
    "queued.min.messages": "20000",  # at 100,000 it is slower, too
}
_RANGE_BASE: Conf = {
    **_MEMBER_BASE,
    **_MANY_RECORDS,
    # At 500, the default, it takes 500 ms to see that a log ends after the markers of a transaction.
    "fetch.wait.max.ms": "10",
}
_READER = "fencepost-reader"  # the library insists on a group
# A reader without a session waits this long for its group's coordinator, and starts no partition meanwhile, whether
# a permission is missing or a broker is down. (The default is 45,000.)
_COMMIT_MS = "4000"
_OF_A_MEMBER = frozenset(  # useless to a reader that joins no group; some of it conflicts with the above
    {"group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "max.poll.interval.ms",
     "partition.assignment.strategy"}
)  # fmt: skip
_ISOLATION = ("read_committed", "read_uncommitted")
OF_A_STREAM: Conf = {"isolation.level": _ISOLATION[0]}
"""Settings of a stream's member that the user cannot change: it reads only committed records and stable offsets."""
PROTOCOL, NEWER_PROTOCOL = "group.protocol", "consumer"
_CLASSIC: Conf = {PROTOCOL: "classic"}  # its generation changes with its assignment: one captured with it is current
_OF_A_SINK = frozenset({"group.id", "isolation.level", "max.poll.records"})
_SINK_BASE: Conf = {
    **_MEMBER_BASE,
    **_MANY_RECORDS,
    "auto.offset.reset": "earliest",
    # A queued record takes half a kilobyte besides its bytes, and all records of a response are queued. With small
    # records in many partitions, the default of 50 MB would become hundreds. Up to eight partitions get 1 MB each.
    "fetch.max.bytes": "8388608",
    # The default of Kafka Connect's sinks, so that members of both can be in one group.
    "partition.assignment.strategy": "range,roundrobin",
    "allow.auto.create.topics": "false",
}
_CLIENT = "client"
_TRANSACTION_TIMEOUT_MS = 60_000  # librdkafka's default
_RECORD_BYTES = 1_000_000  # likewise
_TRANSACTION_LINGER_MS = 1_000
_ADMIN_BASE: Conf = {"reconnect.backoff.ms": "1", "reconnect.backoff.max.ms": "1000", "retry.backoff.ms": "10"}


def producer_conf(properties: Mapping[str, object]) -> Translated:
    """Return the settings of a producer without transactions; the user's settings override Fencepost's defaults.

    The client is always librdkafka.
    """
    user = translate(ClientKind.PRODUCER, _of_any_client(properties))
    return Translated(fitted(_PRODUCER_BASE | user.conf), user.warnings)


def chosen_client(properties: Mapping[str, object]) -> str:
    """Return the client that these properties select for a transactional producer. Raises SettingsError."""
    client = text_of(properties.get(_CLIENT) or AUTO).lower()
    if client not in CLIENTS:
        raise SettingsError({_CLIENT: f"it must be one of {', '.join(CLIENTS)}"})
    return client


def _of_any_client(properties: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in properties.items() if key != _CLIENT}


def client_faults(properties: Mapping[str, object]) -> dict[str, str]:
    """Return the properties that the selected client of a transactional producer does not support, each with a reason.

    Raises SettingsError for values that cannot be translated.
    """
    if chosen_client(properties) != BATCH:
        return {}
    conf = translate(ClientKind.PRODUCER, _of_any_client(properties)).conf
    given = {rule.target: key for key in reversed(list(properties)) for rule in RULES.get(key, ())}
    return {given.get(name, name): why for name, why in lacking(conf).items()}


def transactional_conf(properties: Mapping[str, object], transactional_id: str) -> Translated:
    """Return the settings of a transactional producer.

    `linger.ms` is raised. Nothing is visible before the commit, and the commit flushes; while the oldest record is
    older than `linger.ms`, librdkafka's sending thread polls without a pause (see `ProducerClient.flush`).

    Raises SettingsError if the selected client does not support a setting.
    """
    if faults := client_faults(properties):
        raise SettingsError({key: f"{why}: remove it, or use the client {LIBRDKAFKA}" for key, why in faults.items()})
    outcome = producer_conf(properties)
    conf, warnings = dict(outcome.conf), list(outcome.warnings)
    if chosen_client(properties) == BATCH:
        conf[CLIENT] = BATCH
    longest_ms = min(_TRANSACTION_LINGER_MS, transaction_timeout_ms(conf) // 4)
    conf["linger.ms"] = str(max(longest_ms, int(float(conf["linger.ms"]))))
    if conf.pop("delivery.timeout.ms", None) is not None:
        warnings.append("Ignoring the producer setting 'delivery.timeout.ms': transaction.timeout.ms bounds the time")
    return Translated(conf | {"transactional.id": transactional_id}, warnings)


def own_batch_bytes(properties: Mapping[str, object]) -> int | None:
    """Return `batch.size` from a producer's properties (Java names); None if the user has not set it."""
    given = translate(ClientKind.PRODUCER, properties).conf.get("batch.size")
    return None if given is None else int(given)


def most_record_bytes(conf: Mapping[str, object]) -> int:
    """Return the largest size in bytes of a record under these librdkafka settings."""
    return int(str(conf.get("message.max.bytes", _RECORD_BYTES)))


def transaction_timeout_ms(conf: Mapping[str, object]) -> int:
    """Return the transaction time-out in milliseconds under these librdkafka settings."""
    return int(str(conf.get("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)))


def reader_conf(properties: Mapping[str, object]) -> Translated:
    """Return the settings of a consumer that reads committed records of given partitions and joins no group."""
    user = translate(ClientKind.CONSUMER, properties)
    # Nothing is ever committed to that group.
    return Translated(fitted(user.conf | _READER_BASE | {"group.id": _READER}), user.warnings)


def range_conf(properties: Mapping[str, object], group_id: str) -> Translated:
    """Return the settings of a consumer that reads ranges of partitions. It names a group but never joins it.

    It reads only committed records unless the user sets `isolation.level`.
    """
    return _assigned_conf(_RANGE_BASE, properties, group_id)


def committed_range_conf(connection: Mapping[str, Any], group_id: str) -> Conf:
    """Return the settings of a consumer that reads committed records of ranges, from those of another client."""
    return _assigned(_RANGE_BASE | dict(connection), group_id, "read_committed")


def plan_conf(properties: Mapping[str, object], group_id: str = _READER) -> Translated:
    """Return the settings of a consumer that reads given partitions without end and joins no group.

    It reads only committed records unless the user sets `isolation.level`; `begins_at` returns where it starts. Offsets
    that it commits belong to `group_id`. Settings of group members are left out because they have no effect.
    """
    base = {key: value for key, value in _SINK_BASE.items() if key not in _OF_A_MEMBER}
    given = {key: value for key, value in properties.items() if key not in _OF_A_MEMBER}
    found = _assigned_conf(base, given, group_id)
    return Translated({**found.conf, "session.timeout.ms": _COMMIT_MS}, found.warnings)


def begins_at(properties: Mapping[str, object]) -> str:
    """Return where a partition without a position starts: `earliest` unless the user sets `latest` or `none`."""
    return text_of(properties.get("auto.offset.reset") or "earliest").lower()


def _assigned_conf(base: Conf, properties: Mapping[str, object], group_id: str) -> Translated:
    given = {key: value for key, value in properties.items() if key not in ("group.id", "isolation.level")}
    user = translate(ClientKind.CONSUMER, given)
    return Translated(_assigned(base | user.conf, group_id, isolation_level(properties)), user.warnings)


def _assigned(conf: Conf, group_id: str, isolation: str) -> Conf:
    own = {key: _READER_BASE[key] for key in _READER_BASE if key not in _RANGE_BASE}
    return fitted(conf | own | {"group.id": group_id, "isolation.level": isolation})


def member_conf(properties: Mapping[str, object], group_id: str) -> Translated:
    """Return the settings of a consumer that is a member of a group and commits only on request."""
    user = translate(ClientKind.CONSUMER, properties)
    fixed: Conf = {"group.id": group_id, "enable.auto.commit": "false", "enable.auto.offset.store": "false"}
    return Translated(fitted(_MEMBER_BASE | user.conf | fixed), user.warnings)


def sink_conf(properties: Mapping[str, object], group_id: str, client_id: str) -> Translated:
    """Return the settings of a sink task's consumer, a member of `group_id`.

    By default it starts at the earliest record and reads only committed records. The user can change both.
    """
    given = {key: value for key, value in properties.items() if key not in _OF_A_SINK}
    user = translate(ClientKind.CONSUMER, given)
    fixed: Conf = {"group.id": group_id, "isolation.level": isolation_level(properties), **_CLASSIC}
    warnings = list(user.warnings)
    if user.conf.get(PROTOCOL) == NEWER_PROTOCOL:
        warnings.append(f"Ignoring the consumer setting '{PROTOCOL}': sinks are members of classic groups")
    return Translated(fitted(_SINK_BASE | {"client.id": client_id} | user.conf | fixed), warnings)


def isolation_level(properties: Mapping[str, object]) -> str:
    """Return the isolation level of a sink. Raises SettingsError unless it is one of Kafka's two."""
    level = text_of(properties.get("isolation.level") or _ISOLATION[0]).lower()
    if level not in _ISOLATION:
        raise SettingsError({"isolation.level": f"it must be {' or '.join(_ISOLATION)}"})
    return level


def most_records(properties: Mapping[str, object]) -> int | None:
    """Return the most records that a task gets at once; None if the user has not set it. Raises SettingsError."""
    given = properties.get("max.poll.records")
    if given is None:
        return None
    try:
        most = int(text_of(given))
    except ValueError:
        most = 0
    if most < 1:
        raise SettingsError({"max.poll.records": "it must be a whole number, 1 or more"})
    return most


def check_sink_settings(properties: Mapping[str, object]) -> None:
    """Check the consumer settings that only sinks use. Raises SettingsError."""
    isolation_level(properties)
    most_records(properties)


def admin_conf(properties: Mapping[str, object]) -> Translated:
    """Return the settings of an admin client."""
    user = translate(ClientKind.ADMIN, properties)
    return Translated(fitted(_ADMIN_BASE | user.conf), user.warnings)
