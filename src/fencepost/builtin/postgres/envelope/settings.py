"""The settings of Debezium's Postgres connector that have an effect here: its keys, defaults and meanings."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.api import HIGH, LOW, Config, Secret, Type, at_least, between, non_empty, one_of, setting
from fencepost.builtin.postgres.envelope.other_settings import faults, notes
from fencepost.builtin.postgres.envelope.unavailable import placeholder
from fencepost.config.check import Check, parsed_by, unset_or
from fencepost.config.java_regex import java_regex

TOPIC_NAMING = ("io.debezium.schema.SchemaTopicNamingStrategy", "io.debezium.schema.SchemaUnicodeTopicNamingStrategy")
TRUNCATE = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
MASK = re.compile(r"column\.mask\.with\.(\d+)\.chars")
HASH = re.compile(r"column\.mask\.hash\.(v2\.)?([^.]+)\.with\.salt\.(.+)")
_WITHOUT_LENGTH = {"shake_128", "shake_256"}
_KEY_COLUMNS = re.compile(r"\s*[^:]+:[^:,]+(,[^:,]+)*\s*")


def regexes(text: str | None) -> list[str]:
    r"""Return the patterns of a list of Debezium's; a comma that belongs to a pattern is written `\,`."""
    found = re.split(r"(?<!\\),", text or "")
    return [one.strip().replace("\\,", ",") for one in found if one.strip()]


def _patterns() -> Check:
    check = java_regex()
    return Check(
        lambda value: next((why for one in regexes(value) if (why := check(one)) is not None), None),
        "patterns of Java, separated by commas",
    )


def python_name(algorithm: str) -> str:
    """Return Python's name of a hash algorithm of Java: `SHA-256` is sha256, `SHA3-256` is sha3_256."""
    name = algorithm.lower()
    return name.replace("-", "_") if name.startswith("sha3-") else name.replace("-", "")


def _column_faults(config: Mapping[str, object]) -> Iterator[str]:
    """Yield the faults of keys whose names have a number or an algorithm, and whose values are patterns of columns."""
    for key, value in config.items():
        hashed = HASH.fullmatch(key)
        if hashed is None and TRUNCATE.fullmatch(key) is None and MASK.fullmatch(key) is None:
            continue
        if hashed is not None and python_name(hashed[2]) not in hashlib.algorithms_guaranteed - _WITHOUT_LENGTH:
            yield f"Configuration {key[: hashed.end(2)]} is not supported: there is no hash {hashed[2]}; use SHA-256"
        elif (why := _patterns()(str(value or ""))) is not None:
            yield f"Invalid value {value} for configuration {key[: hashed.end(2) if hashed else None]}: {why}"


def _key_columns(text: str) -> None:
    for one in text.split(";"):
        if _KEY_COLUMNS.fullmatch(one) is None:
            raise ValueError(f"{one.strip()!r} is not TABLE:COLUMN,COLUMN; separate tables by semicolons")


def _list(key: str, doc: str) -> Any:
    return setting(key, default=None, check=unset_or(_patterns()), importance=HIGH, doc=doc)


class DatabaseSettings(Config):
    """Which database is read, as whom."""

    hostname: str = setting("database.hostname", importance=HIGH, check=non_empty(), doc="The host of the database.")
    port: int = setting("database.port", default=5432, check=between(1, 65_535), doc="The port of the database.")
    user: str = setting("database.user", importance=HIGH, check=non_empty(), doc="A user with the right REPLICATION.")
    password: Secret | None = setting("database.password", default=None, importance=HIGH, doc="The user's password.")
    dbname: str = setting("database.dbname", importance=HIGH, check=non_empty(), doc="The database's name.")
    tcp_keep_alive: bool = setting(
        "database.tcpKeepAlive", default=True, doc="Whether the connections send TCP keep-alive probes."
    )


class EncryptionSettings(Config):
    """How connections to the database are encrypted."""

    sslmode: str = setting(
        "database.sslmode",
        default="prefer",
        check=one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        doc="Whether connections are encrypted, and what is checked about the server, in Postgres' own words.",
    )
    sslcert: str | None = setting("database.sslcert", default=None, doc="File with the client's certificate.")
    sslkey: str | None = setting("database.sslkey", default=None, doc="File with the key of that certificate.")
    sslpassword: Secret | None = setting("database.sslpassword", default=None, doc="The password of that key.")
    sslrootcert: str | None = setting("database.sslrootcert", default=None, doc="File with trusted root certificates.")


class SlotSettings(Config):
    """The replication slot and the publication."""

    plugin_name: str = setting(
        "plugin.name",
        default="decoderbufs",
        check=one_of("pgoutput", "decoderbufs"),
        doc="Only `pgoutput` is supported. Debezium's default is `decoderbufs`, so the key must be in the config.",
    )
    slot_name: str = setting(
        "slot.name",
        default="debezium",
        check=Check(
            lambda v: (
                None
                if re.fullmatch("[a-z0-9_]{1,63}", v)
                else "Valid replication slot name must contain only "
                "digits, lowercase characters and underscores with length <= 63"
            ),
            "a name of digits, lower-case letters and underscores",
        ),
        doc="The replication slot, which is created if it does not exist. Each connector needs its own.",
    )
    slot_drop_on_stop: bool = setting(
        "slot.drop.on.stop", default=False, doc="Whether the slot is dropped when the connector is stopped."
    )
    slot_failover: bool = setting(
        "slot.failover", default=False,
        doc="Whether standbys copy the slot (Postgres 17 and newer), so that the connector goes on with one that is "
        "promoted. A slot that exists is marked, too.",
    )  # fmt: skip
    publication_name: str = setting(
        "publication.name", default="dbz_publication", check=non_empty(), doc="The publication that is read."
    )
    publication_autocreate_mode: str = setting(
        "publication.autocreate.mode",
        default="all_tables",
        check=one_of("all_tables", "filtered", "disabled", "no_tables"),
        doc="Who creates the publication, if it does not exist: for `all_tables`, only the captured ones (`filtered`), "
        "none (`no_tables`), or nobody (`disabled`).",
    )
    publish_via_partition_root: bool = setting(
        "publish.via.partition.root",
        default=False,
        doc="Whether the created publication shows changes of partitions as those of the partitioned table.",
    )


class TableSettings(Config):
    """Which tables and columns are captured. All patterns are Java's, match whole names, and ignore case."""

    schema_include_list: str | None = _list("schema.include.list", "Patterns of the schemas to capture.")
    schema_exclude_list: str | None = _list("schema.exclude.list", "Patterns of the schemas not to capture.")
    table_include_list: str | None = _list("table.include.list", "Patterns of the tables to capture: `schema.table`.")
    table_exclude_list: str | None = _list("table.exclude.list", "Patterns of the tables not to capture.")
    column_include_list: str | None = _list("column.include.list", "Patterns of the columns: `schema.table.column`.")
    column_exclude_list: str | None = _list("column.exclude.list", "Patterns of the columns to leave out of values.")
    message_key_columns: str | None = setting(
        "message.key.columns",
        default=None,
        check=unset_or(parsed_by(_key_columns, "TABLE:COLUMN,COLUMN;TABLE:COLUMN")),
        doc="Columns that form the key of tables, instead of the primary key: `shop.orders:region,id;shop.(.*):code`.",
    )


class TypeSettings(Config):
    """How values are written."""

    decimal_handling_mode: str = setting(
        "decimal.handling.mode",
        default="precise",
        check=one_of("precise", "double", "string"),
        doc="`numeric` and `money` as exact decimals, as doubles, or as text. Exact decimals have no NaN: null.",
    )
    time_precision_mode: str = setting(
        "time.precision.mode",
        default="adaptive",
        check=one_of("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"),
        doc="The unit of dates and times without a zone: by the column's precision, Connect's milliseconds, or fixed.",
    )
    interval_handling_mode: str = setting(
        "interval.handling.mode",
        default="numeric",
        check=one_of("numeric", "string"),
        doc="`interval` as microseconds, with months of 30.4375 days, or as ISO 8601 text.",
    )
    hstore_handling_mode: str = setting(
        "hstore.handling.mode", default="json", check=one_of("json", "map"), doc="`hstore` as JSON or as a map."
    )
    binary_handling_mode: str = setting(
        "binary.handling.mode",
        default="bytes",
        check=one_of("bytes", "base64", "base64-url-safe", "hex"),
        doc="`bytea` as bytes or as text.",
    )
    money_fraction_digits: int = setting(
        "money.fraction.digits", type=Type.INT, default=2, check=between(0, 1000), doc="Decimals of `money`."
    )
    include_unknown_datatypes: bool = setting(
        "include.unknown.datatypes",
        default=False,
        doc="Whether columns of types that Debezium does not know are written, as the bytes of their text.",
    )
    unavailable_value_placeholder: str = setting(
        "unavailable.value.placeholder",
        default="__debezium_unavailable_value",
        check=parsed_by(placeholder, "a text, or hex: and hexadecimal digits"),
        doc="What stands for a large value that a change left as it was, and that Postgres therefore does not send. A "
        "text that starts with `hex:` gives bytes.",
    )


class NameSettings(Config):
    """Names of topics, schemas and fields."""

    topic_prefix: str = setting(
        "topic.prefix",
        importance=HIGH,
        check=Check(
            lambda v: (
                None if re.fullmatch("[A-Za-z0-9._-]+", v) else "must have only letters, digits, '.', '_' and '-'"
            ),
            "letters, digits, '.', '_' and '-'",
        ),
        doc="The first part of all topics, the `name` of the source block, and the `server` of offsets.",
    )
    topic_delimiter: str = setting(
        "topic.delimiter",
        default=".",
        importance=LOW,
        check=Check(lambda v: None if re.fullmatch("[A-Za-z0-9._-]+", v) else "must fit into a topic's name", "text"),
        doc="What separates the parts of a topic's name.",
    )
    topic_naming_strategy: str = setting(
        "topic.naming.strategy",
        default=TOPIC_NAMING[0],
        check=one_of(*TOPIC_NAMING, ignore_case=False),
        importance=LOW,
        doc="How topics are named: PREFIX.SCHEMA.TABLE, with `_` or with code points for other characters. For other "
        "names use the transform RegexRouter.",
    )
    topic_heartbeat_prefix: str = setting(
        "topic.heartbeat.prefix", default="__debezium-heartbeat", importance=LOW, doc="Its topic is THIS.PREFIX."
    )
    topic_heartbeat_name: str | None = setting(
        "topic.heartbeat.name", default=None, importance=LOW, doc="The whole name of the heartbeats' topic."
    )
    topic_transaction: str = setting(
        "topic.transaction", default="transaction", importance=LOW, doc="Its topic is PREFIX.THIS."
    )
    schema_name_adjustment_mode: str = setting(
        "schema.name.adjustment.mode",
        default="none",
        check=one_of("none", "avro", "avro_unicode"),
        doc="Whether characters that Avro does not allow are replaced in names of schemas: by `_`, or by `_uXXXX`.",
    )
    field_name_adjustment_mode: str = setting(
        "field.name.adjustment.mode",
        default="none",
        check=one_of("none", "avro", "avro_unicode"),
        doc="The same in names of fields.",
    )


class EventSettings(Config):
    """Which records are written."""

    snapshot_mode: str = setting(
        "snapshot.mode",
        default="initial",
        check=one_of("always", "initial", "initial_only", "no_data", "never", "when_needed"),
        doc="When the rows that exist are read: if there is no offset (`initial`, and `initial_only` stops then), at "
        "each start (`always`), if the log is lost, too (`when_needed`), or not (`no_data`, `never`).",
    )
    tombstones_on_delete: bool = setting(
        "tombstones.on.delete", default=True, doc="Whether a record without a value follows each delete."
    )
    skipped_operations: list[str] = setting(
        "skipped.operations",
        default=["t"],
        check=Check(
            lambda v: (
                None if {one.lower() for one in v} <= {"c", "u", "d", "t", "none"} else "must be of c, u, d, t, none"
            ),
            "[c, u, d, t] or none",
        ),
        doc="Changes that are not written: `c` inserts, `u` updates, `d` deletes, `t` truncates.",
    )
    provide_transaction_metadata: bool = setting(
        "provide.transaction.metadata",
        default=False,
        doc="Whether records say where they were in their transaction, and its BEGIN and END are written to a topic.",
    )
    heartbeat_interval_ms: int = setting(
        "heartbeat.interval.ms",
        default=0,
        check=at_least(0),
        type=Type.INT,
        doc="How often a heartbeat is written; 0: never. Offsets and slot move without it.",
    )
    heartbeat_action_query: str | None = setting(
        "heartbeat.action.query", default=None, doc="An SQL statement that is run with each heartbeat."
    )
    propagate_source_type: str | None = setting(
        "column.propagate.source.type",
        default=None,
        check=unset_or(_patterns()),
        doc="Patterns of columns whose type, length and scale become parameters of their schemas.",
    )
    propagate_source_datatype: str | None = setting(
        "datatype.propagate.source.type",
        default=None,
        check=unset_or(_patterns()),
        doc="Patterns of types, `SCHEMA.TABLE.TYPE`, whose columns get these parameters.",
    )


class MessageSettings(Config):
    """Which messages of `pg_logical_emit_message` are written. Patterns are those of the lists of tables."""

    message_prefix_include_list: str | None = _list(
        "message.prefix.include.list", "Patterns of the prefixes of messages to write. All, if no list is set."
    )
    message_prefix_exclude_list: str | None = _list(
        "message.prefix.exclude.list", "Patterns of the prefixes of messages not to write; `.*`: none is written."
    )


class SignalSettings(Config):
    """Signals: rows of a table that ask the connector for something."""

    signal_data_collection: str | None = setting(
        "signal.data.collection",
        default=None,
        doc="The table whose inserted rows are signals: `DATABASE.SCHEMA.TABLE`. It is captured, too. The types "
        "`execute-snapshot` (without conditions) and `log` are followed; others are named in the log.",
    )
    signal_enabled_channels: list[str] = setting(
        "signal.enabled.channels",
        default=["source"],
        check=Check(lambda v: None if set(v) <= {"source"} else "only the channel `source` is supported", "[source]"),
        importance=LOW,
        doc="How signals arrive.",
    )


class PostgresSettings(
    DatabaseSettings, EncryptionSettings, SlotSettings, TableSettings, TypeSettings, NameSettings, EventSettings,
    MessageSettings, SignalSettings,
):  # fmt: skip
    """All settings. Keys of Debezium that are not supported are refused by name, with the reason."""

    def check_together(self) -> list[str]:
        found = [*faults(self.originals), *_column_faults(self.originals)]
        if self.plugin_name != "pgoutput":
            found.append(
                f"Invalid value {self.plugin_name} for configuration {PostgresSettings.key_of('plugin_name')}: only "
                f"pgoutput is supported; write {PostgresSettings.key_of('plugin_name')}=pgoutput"
            )
        for kind in ("schema", "table", "column", "message_prefix"):
            if getattr(self, f"{kind}_include_list") and getattr(self, f"{kind}_exclude_list"):
                keys = (PostgresSettings.key_of(f"{kind}_{which}_list") for which in ("include", "exclude"))
                found.append(" and ".join(keys) + " exclude each other; keep one")
        return found

    def notes(self) -> list[str]:
        """Return a text for each key that is accepted and has no effect."""
        return notes(self.originals)

    @property
    def placeholder(self) -> bytes:
        """Return what stands for an unchanged large value."""
        return placeholder(self.unavailable_value_placeholder)

    @property
    def skipped(self) -> frozenset[str]:
        """Return the operations that are not written, as letters."""
        return frozenset(one.lower() for one in self.skipped_operations) - {"none"}
