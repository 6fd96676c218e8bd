"""The settings of the sink, under the keys of Confluent's JDBC sink; those of Debezium's are accepted, too."""

from collections.abc import Mapping
from functools import cached_property
from urllib.parse import parse_qsl, unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fencepost.api import HIGH, LOW, Config, ConfigError, Secret, Type, at_least, between, non_empty, one_of, setting
from fencepost.builtin.postgres.envelope.unavailable import placeholder
from fencepost.config.check import parsed_by
from fencepost.postgres import ConnectionSettings

INSERT, UPSERT, UPDATE = "insert", "upsert", "update"
NONE, KAFKA, RECORD_KEY, RECORD_VALUE = "none", "kafka", "record_key", "record_value"
_JDBC = "jdbc:postgresql:"
_SECRETS = {"password", "sslpassword"}
_SAME_KEYS = {
    "connection.username": "connection.user",
    "primary.key.mode": "pk.mode",
    "primary.key.fields": "pk.fields",
    "collection.name.format": "table.name.format",
    "use.time.zone": "db.timezone",
    "field.include.list": "fields.whitelist",
    "fields.include": "fields.whitelist",
}
"""Debezium's keys, and ours with the same meaning."""
_NAME_MAX = 63
_EVOLUTION = "schema.evolution"
_OF_URL = {"sslmode", "sslrootcert", "sslcert", "sslkey", "ApplicationName", "user", "currentSchema"}


class DatabaseConfig(Config):
    """How the sink reaches the database."""

    connection_url: str | None = setting(
        "connection.url", default=None, importance=HIGH,
        doc="`jdbc:postgresql://host:port/database`, as for JDBC; its parameters `sslmode`, `sslrootcert`, `sslcert`, "
        "`sslkey` and `currentSchema` are used. Or set `connection.host` and what follows.",
    )  # fmt: skip
    connection_host: str = setting("connection.host", default="localhost", doc="The host, without a URL.")
    connection_port: int = setting(
        "connection.port", default=5432, type=Type.INT, check=between(1, 65535), doc="The port, without a URL."
    )
    connection_database: str | None = setting(
        "connection.database", default=None, doc="The database, without a URL. Unset: the one named like the user."
    )
    connection_user: str | None = setting("connection.user", default=None, importance=HIGH, doc="The user.")
    connection_password: Secret | None = setting(
        "connection.password", default=None, importance=HIGH, doc="The user's password."
    )
    connection_sslmode: str = setting(
        "connection.sslmode", default="prefer", importance=LOW,
        check=one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        doc="Whether the connection is encrypted and the server's certificate checked, without a URL.",
    )  # fmt: skip
    dialect_name: str | None = setting(
        "dialect.name", default=None, importance=LOW, check=one_of("PostgreSqlDatabaseDialect"),
        doc="Accepted for configs of the JDBC sink, if it is that of Postgres.",
    )  # fmt: skip


class ModeConfig(DatabaseConfig):
    """How rows are written."""

    insert_mode: str = setting(
        "insert.mode", default=INSERT, check=one_of(INSERT, UPSERT, UPDATE), importance=HIGH,
        doc="`insert` adds a row for each record, `upsert` inserts or replaces the row with the record's key, `update` "
        "changes rows that exist. The last record of a key wins.",
    )  # fmt: skip
    pk_mode: str = setting(
        "pk.mode", default=NONE, check=one_of(NONE, KAFKA, RECORD_KEY, RECORD_VALUE), importance=HIGH,
        doc="Where the primary key comes from: nowhere, topic, partition and offset (`kafka`), or fields of the "
        "record's key or value.",
    )  # fmt: skip
    pk_fields: list[str] = setting(
        "pk.fields", default=[],
        doc="The fields of the primary key; unset: all fields of the record's key or value. With `kafka`, the names of "
        "the three columns; unset: `__connect_topic`, `__connect_partition`, `__connect_offset`. With a record key "
        "that is no struct, the name of its column.",
    )  # fmt: skip
    delete_enabled: bool = setting(
        "delete.enabled", default=False,
        doc="Whether a record without a value, and Debezium's delete, deletes the row with the record's key. It "
        "requires `pk.mode=record_key`. Otherwise such records are skipped.",
    )  # fmt: skip
    batch_size: int = setting(
        "batch.size", default=10_000, type=Type.INT, check=at_least(1),
        doc="About how many records are written in one transaction. Fewer wait at most a fifth of a second.",
    )  # fmt: skip
    offsets_table: str = setting(
        "offsets.table", default="fencepost_offsets", check=non_empty(), importance=LOW,
        doc="The table of the database with the offsets and the owner of each partition, which are written in the "
        "transaction of the rows. It is created if it is missing; a dot separates a schema and a table.",
    )  # fmt: skip


class SinkSettings(ModeConfig):
    """All settings of the sink: those above, and which tables and columns are written."""

    table_name_format: str = setting(
        "table.name.format", default="${topic}", check=non_empty(), importance=HIGH,
        doc="The table: `${topic}` is the topic. A dot separates a schema and a table; what is left of both is "
        "ignored, so that Debezium's `prefix.schema.table` names the table `schema.table`.",
    )  # fmt: skip
    fields_whitelist: list[str] = setting(
        "fields.whitelist", default=[], doc="The fields of the value that are written; unset: all. Keys always are."
    )
    unavailable_value_placeholder: str = setting(
        "unavailable.value.placeholder", default="__debezium_unavailable_value", importance=LOW,
        check=parsed_by(placeholder, "a text, or hex: and hexadecimal digits"),
        doc="What the source writes for a large value that a change did not touch, as its setting of this name says. "
        "Such a column keeps its value.",
    )  # fmt: skip
    auto_create: bool = setting("auto.create", default=False, doc="Whether a missing table is created.")
    auto_evolve: bool = setting("auto.evolve", default=False, doc="Whether missing columns are added to the table.")
    quote_sql_identifiers: str = setting(
        "quote.sql.identifiers", default="always", check=one_of("always", "never"),
        doc="Whether names keep their case. With `never`, Postgres makes them lower case.",
    )  # fmt: skip
    db_timezone: str = setting(
        "db.timezone", default="UTC",
        doc="The time zone in which Connect's timestamps are written to columns of type `timestamp`.",
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(with_own_keys(properties or {}))

    def check_together(self) -> list[str]:
        faults = [*super().check_together(), *self._url_faults()]
        mode, pk = self.insert_mode.lower(), self.pk_mode.lower()
        if mode != INSERT and pk == NONE:
            faults.append(f"insert.mode={mode} needs a key: set pk.mode to {RECORD_KEY}, {RECORD_VALUE} or {KAFKA}")
        if self.delete_enabled and pk != RECORD_KEY:
            faults.append(f"delete.enabled=true needs pk.mode={RECORD_KEY}, not {pk}")
        if pk == KAFKA and len(self.pk_fields) not in (0, 3):
            faults.append("pk.fields must be unset or name three columns with pk.mode=kafka")
        try:
            ZoneInfo(self.db_timezone)
        except (ZoneInfoNotFoundError, ValueError):
            faults.append(f"db.timezone={self.db_timezone} is no time zone; name one such as Europe/Berlin")
        return faults

    def _url_faults(self) -> list[str]:
        url = self.connection_url
        if url is None:
            return ["connection.user is missing: set the user of the database"] if self.connection_user is None else []
        if not url.startswith(_JDBC):
            return [f"connection.url must begin with {_JDBC}//"]
        parts = urlsplit(url.removeprefix("jdbc:"))
        given = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
        if given & _SECRETS or "@" in parts.netloc:
            return ["connection.url has a password, which it would show: set connection.user and connection.password"]
        if "user" not in given and self.connection_user is None:
            return ["connection.user is missing: set the user of the database"]
        unknown = sorted(given - _OF_URL)
        if unknown:
            return [f"connection.url has parameters that are not supported: {', '.join(unknown)}; remove them"]
        if "," in parts.netloc:
            return ["connection.url names several hosts: name one, such as that of a proxy that knows the primary"]
        try:
            _ = parts.port
        except ValueError:
            return ["connection.url has a port that is no number from 1 to 65535"]
        return []

    @cached_property
    def zone(self) -> ZoneInfo | None:
        """Return the zone of `db.timezone`; None for UTC."""
        return None if self.db_timezone.upper() == "UTC" else ZoneInfo(self.db_timezone)

    def connection(self, name: str) -> ConnectionSettings:
        """Return where the database is. `name` is how it shows the sink's sessions."""
        parts = urlsplit((self.connection_url or "").removeprefix("jdbc:"))
        given = dict(parse_qsl(parts.query))
        user = self.connection_user or given.get("user") or ""
        password = self.connection_password
        is_url = self.connection_url is not None
        return ConnectionSettings(
            host=(parts.hostname or "localhost") if is_url else self.connection_host,
            port=(parts.port or 5432) if is_url else self.connection_port,
            database=(unquote(parts.path.lstrip("/")) if is_url else self.connection_database) or user,
            user=user,
            password=None if password is None else password.reveal(),
            sslmode=given.get("sslmode", "prefer") if is_url else self.connection_sslmode.lower(),
            sslrootcert=given.get("sslrootcert"),
            sslcert=given.get("sslcert"),
            sslkey=given.get("sslkey"),
            application_name=name[:_NAME_MAX],
        )

    @cached_property
    def default_schema(self) -> str | None:
        """Return the schema that the URL names for tables without one."""
        query = "" if self.connection_url is None else urlsplit(self.connection_url.removeprefix("jdbc:")).query
        return dict(parse_qsl(query)).get("currentSchema")


def with_own_keys(properties: Mapping[str, object]) -> dict[str, object]:
    """Return properties with our keys in place of Debezium's. Raises ConfigError if both are given and differ."""
    found = dict(properties)
    evolution = str(found.pop(_EVOLUTION, "")).strip().lower()
    if evolution not in ("", "none", "basic"):
        raise ConfigError(f"{_EVOLUTION}={evolution} is unknown: set none or basic")
    if evolution == "basic":
        found = {"auto.create": "true", "auto.evolve": "true", **found}
    for theirs, ours in _SAME_KEYS.items():
        if theirs in found:
            given = found.pop(theirs)
            if found.setdefault(ours, given) != given:
                raise ConfigError(f"{theirs} and {ours} differ: keep one of them")
    return found
