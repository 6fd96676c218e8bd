"""What the audits of files sinks, of mirrors and of connectors with a database compare, as the configs say."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from fencepost.api import Converter, RecordError, Schema, SinkBatch
from fencepost.builtin.connector.files.columns import PARQUET
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.json_decoding import decode
from fencepost.builtin.mirror.setting.clients import FlowEnd, client_keys, client_settings
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.builtin.mirror.source.position import last_of, place_within
from fencepost.builtin.postgres.audit.source import SourceSide
from fencepost.builtin.postgres.audit.table import RowDifferenceKind
from fencepost.builtin.postgres.audit.target import TargetSide
from fencepost.builtin.postgres.sink.settings import UPDATE
from fencepost.builtin.postgres.sink.task import PostgresSink
from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.builtin.postgres.source.progress import Progress
from fencepost.config import ConfigError
from fencepost.config.connector import SinkConnectorConfig
from fencepost.config.reference import given_values, has_references
from fencepost.kafka.read.produced import Produced
from fencepost.kafka.setting.client_settings import begins_at, isolation_level, range_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.ledger.database_audit import DatabaseAudit
from fencepost.ledger.database_position import Committed, LogPosition, StoredPosition
from fencepost.ledger.files_audit import FileForm, FilesScope
from fencepost.ledger.mirror_audit import MirroredPartition, MirrorScope
from fencepost.ledger.topic_rows import Decode
from fencepost.plugin import PluginKind, registry
from fencepost.record import Repeated, TopicPartition
from fencepost.secret.redaction import HIDDEN
from fencepost.task.conversion.columns import bytes_to_values

_PATH, _FORMAT = FilesSink.key_of("path"), FilesSink.key_of("format")
_SCHEMA, _QUERY = FilesSink.key_of("value_schema"), FilesSink.key_of("transforms_sql")
_TOLERANCE = SinkConnectorConfig.key_of("errors_tolerance")
_ISOLATION = "consumer.override.isolation.level", "consumer.isolation.level"
_RESETS = "consumer.override.auto.offset.reset", "consumer.auto.offset.reset"  # the sink's, and the worker's
_CONVERTER, _AS_TEXT = "value.converter", ("StringConverter", "JsonConverter")
_WRITER = "writer."
_CHANGING_ROWS = {
    "json": frozenset({"linesep", "encoding", "charset"}),
    "csv": frozenset(
        {"linesep", "encoding", "charset", "sep", "delimiter", "quote", "escape", "chartoescapequoteescaping"}
    ),
}
"""Options of Spark's writer, in small letters, that say how rows are told apart."""
_OFFSET = re.compile(r"(?<![\w.`])(?<!\bas )offset(?:\s+as\s+`?(?P<name>\w+)`?)?\s*(?:,|\bfrom\b)", re.IGNORECASE)
_PROJECTION = re.compile(r"\s*select\s(?!\s*distinct\b)[^()]*\bfrom\s+records\s*;?\s*", re.IGNORECASE)

_TRANSFORMS, _KEY, _VALUE = "transforms", "key.converter", "value.converter"
Given = Mapping[str, str]


def files_scope(
    config: Mapping[str, str | None], offsets: Mapping[str, Any], worker: Mapping[str, str] = MappingProxyType({})
) -> FilesScope:
    """Return what to compare, from a sink's config and the answer about its offsets. Raises ConfigError.

    `worker` is the worker's file, if it is known: consumers begin where it says, unless the config says it.
    """
    query = (config.get(_QUERY) or "").strip()
    has_schema = bool((config.get(_SCHEMA) or "").strip())
    is_text = (config.get(_CONVERTER) or "").rpartition(".")[2] in _AS_TEXT
    form = FileForm(
        (config.get(_FORMAT) or str(FilesSink.settings()[_FORMAT].default)).lower(),
        offset_column(query),
        is_raw=is_text and not query and not has_schema,
        has_header=any(
            key.lower() == f"{_WRITER}header" and (value or "").lower() == "true" for key, value in config.items()
        ),
    )
    _ensure_known(form.format, config)
    return FilesScope(
        _directory(config.get(_PATH) or ""),
        form,
        _committed(offsets),
        has_all=keeps_all(query) and (config.get(_TOLERANCE) or "none").lower() == "none",
        from_start=(config.get(_RESETS[0]) or worker.get(_RESETS[1]) or "earliest").lower() == "earliest",
    )


def offset_column(query: str) -> str:
    """Return the column of a query that has the records' offsets; empty if it is not clear that there is one.

    >>> offset_column("SELECT value.*, offset AS kafka_offset FROM records")
    'kafka_offset'
    >>> offset_column("SELECT value.offset FROM records")
    ''
    """
    found = (
        _OFFSET.search(" ".join(query.split())) if len(re.findall(r"\bselect\b", query, re.IGNORECASE)) == 1 else None
    )
    return "" if found is None else found["name"] or "offset"


def keeps_all(query: str) -> bool:
    """Return whether a query certainly makes one row of each record: none does, or one that only names columns.

    >>> keeps_all("SELECT value.*, offset AS kafka_offset FROM records")
    True
    >>> keeps_all("SELECT explode(value.items) FROM records") or keeps_all("SELECT key FROM records WHERE key > 1")
    False
    """
    return not query or _PROJECTION.fullmatch(query) is not None


def _ensure_known(format_: str, config: Mapping[str, str | None]) -> None:
    if format_ == PARQUET:
        return
    known = {"compression": ("none", "uncompressed", "gzip", "bzip2"), "header": ("true", "false")}
    for key, value in config.items():
        option = key[len(_WRITER) :].lower() if key.startswith(_WRITER) else ""
        changes_rows = option in known or option in _CHANGING_ROWS[format_]
        if changes_rows and value and value.lower() not in known.get(option, ()):
            raise ConfigError(
                f"{key}={value}: an audit does not know files of {format_} with that, so it cannot compare"
            )


def _directory(path: str) -> Path:
    parts = urlsplit(path)
    if parts.scheme not in ("", "file") or parts.netloc:
        raise ConfigError(
            f"{_PATH}={path} is not a directory of this machine: an audit reads the files where they are mounted, so "
            "they cannot be compared"
        )
    found = Path(unquote(parts.path) if parts.scheme else path)
    if not found.is_dir():
        raise ConfigError(f"{_PATH}={path} does not exist on this machine: run the audit where the files are")
    return found


def _committed(offsets: Mapping[str, Any]) -> dict[TopicPartition, int]:
    pairs = ((each["partition"], each["offset"] or {}) for each in offsets.get("offsets", ()))
    return {
        TopicPartition(partition["kafka_topic"], int(partition["kafka_partition"])): int(offset["kafka_offset"])
        for partition, offset in pairs
        if "kafka_offset" in offset
    }


PROPERTIES, SOURCE_PROPERTIES = "--properties", "--source-properties"
_ROLE = "audit"


class GivenEnds(NamedTuple):
    """Settings of clients that the user gives.

    Those of the source replace some of the config, those of the target, if there are any, all of them.
    """

    source: Mapping[str, str]
    target: Mapping[str, str] | None


def mirror_scope(
    connector: type[MirrorSourceConnector],
    config: Mapping[str, str | None],
    offsets: Mapping[str, Any],
    ends: GivenEnds,
    reader: str,
) -> MirrorScope:
    """Return what to compare, from a mirror's config and the answer about its offsets. Raises ConfigError."""
    if (config.get(_TRANSFORMS) or "").strip():
        raise ConfigError(f"{_TRANSFORMS} may change what is mirrored, so source and target cannot be compared")
    mirror = connector(given_values(_known(config, ends)))
    settings = {**mirror.client(FlowEnd.SOURCE, ClientKind.CONSUMER, _ROLE), **ends.source}
    if isolation_level(settings) != "read_committed":
        raise ConfigError(
            "the mirror copies aborted records as well: only with isolation.level=read_committed can it "
            "be compared with its source"
        )
    committed = {"isolation.level": "read_committed"}
    given = ends.target or mirror.client(FlowEnd.TARGET, ClientKind.CONSUMER, _ROLE)
    remote = mirror.selection().remote_topic
    partitions = [
        MirroredPartition(place, TopicPartition(remote(place.topic), place.partition), last_of(each["offset"]) + 1)
        for each in offsets.get("offsets", ())
        if (place := place_within(each["partition"], mirror.source_cluster_alias)) is not None and each["offset"]
    ]
    return MirrorScope(
        range_conf({**settings, **committed}, reader).conf,
        range_conf({**given, **committed}, reader).conf,
        sorted(partitions, key=lambda each: each.place),
        from_start=begins_at(settings) == "earliest",
    )


def _known(config: Mapping[str, str | None], ends: GivenEnds) -> dict[str, str | None]:
    """Return the config without values that workers do not show. Raises ConfigError for those that nobody has given."""
    needed = [(FlowEnd.SOURCE, ends.source, SOURCE_PROPERTIES)]
    needed += [(FlowEnd.TARGET, {}, PROPERTIES)] if ends.target is None else []
    for end, given, option in needed:
        for name, key in client_keys(config, end, ClientKind.CONSUMER).items():
            why = _why_unknown(key, config[key])
            if why and name not in given:
                raise ConfigError(f"{key}: {why}. Give {name} in a file, and name the file with {option}")
    clients = client_settings(config)
    return {key: value for key, value in config.items() if key not in clients or not _why_unknown(key, value)}


def _why_unknown(key: str, value: object) -> str:
    if HIDDEN in str(value):
        return "a worker does not show it"
    return "only workers look up what it refers to" if has_references({key: value}) else ""


def source_audit(
    conf: Mapping[str, Any],
    name: str,
    config: Mapping[str, str | None],
    offsets: Callable[[], Mapping[str, Any]],
    given: Given,
    worker: Given,
    *,
    wait_s: float = 10.0,
    state: Path | None = None,
) -> DatabaseAudit:
    """Return the audit of a source of Postgres. Raises ConfigError.

    Args:
        conf: Of the brokers, made by `range_conf`.
        name: The connector's.
        config: The connector's, as a worker shows it.
        offsets: Returns the answer about its offsets.
        given: Settings that replace those of the config.
        worker: The worker's file, if it is known: a config without converters has the worker's.
        wait_s: How long to wait for the connector, and for open transactions.
        state: As in `DatabaseAudit`.
    """
    known = _known_of_database(config, given)
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

    return DatabaseAudit(conf, name, side, decoder(key, value), LogPosition(name, committed, wait_s), state=state)


def target_audit(
    conf: Mapping[str, Any],
    name: str,
    config: Mapping[str, str | None],
    given: Given,
    worker: Given,
    *,
    state: Path | None = None,
) -> DatabaseAudit:
    """Return the audit of a sink of Postgres. Raises ConfigError. The arguments are those of `source_audit`."""
    known = _known_of_database(config, given)
    own = PostgresSink(known)
    if own.insert_mode.lower() == UPDATE:
        raise ConfigError(
            f"{own.key_of('insert_mode')}={own.insert_mode}: rows that others insert later need not be what records "
            "before them say, so table and topics cannot be compared"
        )
    level = known.get(_ISOLATION[0]) or worker.get(_ISOLATION[1])
    if isolation_level({} if level is None else {"isolation.level": level}) != "read_committed":
        raise ConfigError("the sink reads aborted records as well, so table and topics cannot be compared")
    excuses: dict[RowDifferenceKind, str] = {}
    if (known.get(_RESETS[0]) or worker.get(_RESETS[1]) or "earliest").lower() != "earliest":
        excuses[RowDifferenceKind.MISSING_IN_TABLE] = "as the sink may have begun after its record (auto.offset.reset)"
    if (known.get(_TOLERANCE) or "none").lower() != "none":
        why = f"as its record may be a dead letter ({_TOLERANCE})"
        excuses |= {RowDifferenceKind.MISSING_IN_TABLE: why, RowDifferenceKind.DIFFERS: why}
    side = TargetSide(own, name, excuses)
    decode = decoder(_converter(known, worker, _KEY), _converter(known, worker, _VALUE))

    def readable(place: TopicPartition, piece: Produced) -> SinkBatch:
        """Return the records that the converters can read: the others are not in the table."""
        try:
            return decode(place, piece)
        except RecordError:
            middle = len(piece) // 2
            parts = [piece.part(0, middle), piece.part(middle, len(piece))] if middle else [piece.part(0, 0)]
            return SinkBatch.joined([readable(place, part) for part in parts])

    return DatabaseAudit(conf, name, side, readable, StoredPosition(side), state=state)


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


def _known_of_database(config: Mapping[str, str | None], given: Given) -> dict[str, str]:
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
