"""Keys that a later version of a connector has renamed: configs on the web still have the old ones."""

from collections.abc import Collection, Iterable, Iterator

_OF_DEBEZIUM = "io.debezium.connector."
_HISTORY, _SCHEMA_HISTORY = "database.history", "schema.history.internal"
_SINCE_DEBEZIUM_2 = {
    "database.server.name": "topic.prefix",
    "mongodb.name": "topic.prefix",
    _HISTORY: _SCHEMA_HISTORY,
    "database.dbname": "database.names",
    "heartbeat.topics.prefix": "topic.heartbeat.prefix",
    "transaction.topic": "topic.transaction",
    "toasted.value.placeholder": "unavailable.value.placeholder",
    "sanitize.field.names": "field.name.adjustment.mode",
    **{
        f"{what}.{old}list": f"{what}.{new}.list"
        for what in ("database", "schema", "table", "column", "collection")
        for old, new in (("white", "include"), ("black", "exclude"))
    },
}


def renamed_keys(class_name: str, keys: Iterable[str], read: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys that a connector read before Debezium 2, each with its name now.

    Args:
        class_name: The connector's class.
        read: The keys that it declares.
    """
    for key in keys if class_name.startswith(_OF_DEBEZIUM) else ():
        is_of_history = key.startswith(f"{_HISTORY}.") and any(one.startswith(_SCHEMA_HISTORY) for one in read)
        new = _SCHEMA_HISTORY + key.removeprefix(_HISTORY) if is_of_history else _SINCE_DEBEZIUM_2.get(key)
        if new is not None and key not in read and (is_of_history or new in read):
            yield key, new


def warning(new: str) -> str:
    """Return what to say of an old key."""
    return f"nothing reads it since Debezium 2: rename it to {new}"


def hint(old: str) -> str:
    """Return what to say of a key that is missing, where the config has its old name."""
    return f"It was {old} before Debezium 2, which this config has: rename that"
