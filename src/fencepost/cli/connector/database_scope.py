"""What an audit of a connector and its database reads, as the config says."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fencepost.api import Converter, Schema, SinkBatch
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.json_decoding import decode
from fencepost.builtin.postgres.audit.source import SourceSide
from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.builtin.postgres.source.progress import Progress
from fencepost.config import ConfigError
from fencepost.config.reference import given_values, has_references
from fencepost.kafka.read.produced import Produced
from fencepost.ledger.database_audit import Committed, DatabaseAudit
from fencepost.ledger.topic_rows import Decode
from fencepost.plugin import PluginKind, registry
from fencepost.record import Repeated, TopicPartition
from fencepost.secret.redaction import HIDDEN
from fencepost.task.conversion.columns import bytes_to_values

_TRANSFORMS, _KEY, _VALUE = "transforms", "key.converter", "value.converter"
Given = Mapping[str, str]


def source_audit(
    conf: Mapping[str, Any],
    name: str,
    config: Mapping[str, str | None],
    offsets: Callable[[], Mapping[str, Any]],
    given: Given,
    worker: Given,
    **limits: Any,
) -> DatabaseAudit:
    """Return the audit of a source of Postgres. Raises ConfigError.

    Args:
        conf: Of the brokers, made by `range_conf`.
        name: The connector's.
        config: The connector's, as a worker shows it.
        offsets: Returns the answer about its offsets.
        given: Settings that replace those of the config.
        worker: The worker's file, if it is known: a config without converters has the worker's.
        limits: More for `DatabaseAudit`.
    """
    known = _known(config, given)
    own = PostgresSource(known)
    key, value = _converter(known, worker, _KEY), _converter(known, worker, _VALUE)
    bare = partial(decode, is_null_replaced=False) if _is_bare(value) or _is_bare(key) else None
    side = SourceSide(own, bare)

    if not own.has_stream:
        raise ConfigError(
            f"{own.key_of('snapshot_mode')}={own.snapshot_mode}: the connector does not follow the database, so there "
            "is no position at which both can be compared"
        )

    def committed() -> Committed:
        pairs = [(each["partition"], each["offset"]) for each in offsets().get("offsets", ()) if each["offset"]]
        progress = Progress.of(own.prefix, pairs)
        if progress.position is None or progress.plan is not None:  # a snapshot is being read, maybe of new tables
            return Committed(0)
        return Committed(progress.position.lsn, progress.tables or None if own.has_snapshot else None)

    return DatabaseAudit(conf, name, side, decoder(key, value), committed=committed, **limits)


def decoder(key: Converter, value: Converter) -> Decode:
    """Return the function from bytes to records that converters read. Raises RecordError for what they cannot read."""

    def decoded(place: TopicPartition, piece: Produced) -> SinkBatch:
        count = len(piece)
        keys, key_schemas = _values(key, place.topic, piece.keys.to_pylist())
        values, value_schemas = _values(value, place.topic, piece.values.to_pylist())
        none = Repeated(None, count)
        return SinkBatch(
            Repeated(place.topic, count),
            Repeated(place.partition, count),
            range(piece.offset, piece.offset + count),
            values,
            value_schemas,
            keys,
            key_schemas,
            none,
            Repeated(place, count),
        )

    return decoded


def _values(
    converter: Converter, topic: str, column: Sequence[bytes | None]
) -> tuple[Sequence[Any], Sequence[Schema | None]]:
    found = bytes_to_values(converter.for_topic(topic), column)
    if found is not None:
        return found[1], Repeated(found[0], len(column))
    pairs = [(None, None) if each is None else converter.to_connect_data(topic, each) for each in column]
    return [value for _, value in pairs], [schema for schema, _ in pairs]


def _is_bare(converter: Converter) -> bool:
    return isinstance(converter, JsonConverter) and not converter.schemas_enable


def _converter(config: Given, worker: Given, role: str) -> Converter:
    of = config if (config.get(role) or "").strip() else worker
    name = (of.get(role) or "").strip()
    if not name:
        raise ConfigError(f"{role} is the worker's: name the worker's file with --properties")
    own = {key[len(role) + 1 :]: value for key, value in of.items() if key.startswith(f"{role}.")}
    found: Converter = registry().find(PluginKind.CONVERTER, name, None)({**own, "converter.type": role.split(".")[0]})
    return found


def _known(config: Mapping[str, str | None], given: Given) -> dict[str, str]:
    """Return the config with what is given in place of it. Raises ConfigError for what a worker does not show."""
    if (config.get(_TRANSFORMS) or "").strip():
        raise ConfigError(
            f"{_TRANSFORMS} may change what is written, so the database and the topics cannot be compared"
        )
    found = {**given_values(config), **given}
    for key, value in found.items():
        hidden = HIDDEN in value
        if hidden or (has_references({key: value}) and not key.startswith(("producer.", "consumer.", "admin."))):
            why = "a worker does not show it" if hidden else "only workers look up what it refers to"
            raise ConfigError(f"{key}: {why}. Give {key} in a file, and name the file with --source-properties")
    return found
