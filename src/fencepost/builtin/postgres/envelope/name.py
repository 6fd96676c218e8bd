"""Names of topics, schemas and fields, as Debezium makes them of names in the database."""

import re

from fencepost.builtin.postgres.envelope.settings import TOPIC_NAMING, PostgresSettings

_LONGEST = 249


def topic(settings: PostgresSettings, schema: str, table: str) -> str:
    """Return the topic of a table's changes."""
    joined = settings.topic_delimiter.join((settings.topic_prefix, schema, table))
    is_unicode = settings.topic_naming_strategy == TOPIC_NAMING[1]
    name = re.sub("[^A-Za-z0-9._-]", lambda found: _code(found[0]) if is_unicode else "_" * _units(found[0]), joined)
    return name[:_LONGEST]


def heartbeat_topic(settings: PostgresSettings) -> str:
    parts = (settings.topic_heartbeat_prefix, settings.topic_prefix)
    return settings.topic_heartbeat_name or settings.topic_delimiter.join(parts)


def transaction_topic(settings: PostgresSettings) -> str:
    return settings.topic_delimiter.join((settings.topic_prefix, settings.topic_transaction))


def message_topic(settings: PostgresSettings) -> str:
    return f"{settings.topic_prefix}.message"


def schema_name(settings: PostgresSettings, name: str) -> str:
    """Return the name of a schema: all of it, with dots."""
    return _adjusted(name, settings.schema_name_adjustment_mode.lower(), "A-Za-z0-9_.", is_field=False)


def field_name(settings: PostgresSettings, name: str) -> str:
    """Return the name of a column's field."""
    return _adjusted(name, settings.field_name_adjustment_mode.lower(), "A-Za-z0-9_", is_field=True)


def _adjusted(name: str, mode: str, allowed: str, *, is_field: bool) -> str:
    if mode == "none" or not name:
        return name
    is_unicode = mode == "avro_unicode"
    kept = allowed.replace("_", "") if is_unicode else allowed  # where `_` begins a code, it is one itself

    def replaced(found: re.Match[str]) -> str:
        return _code(found[0]) if is_unicode else "_" * _units(found[0])

    first, rest = name[0], re.sub(f"[^{kept}]", replaced, name[1:])
    if re.fullmatch("[A-Za-z]" if is_unicode else "[A-Za-z_]", first) is None:
        first = _code(first) if is_unicode else "_" * _units(first) + (first if first.isdigit() else "")
    return first + rest


def _units(character: str) -> int:
    """Return of how many characters of Java's it is made."""
    return len(character.encode("utf-16-be")) // 2


def _code(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"_u{units[start : start + 4]}" for start in range(0, len(units), 4))
