"""What a connector leaves in another system when it is deleted, and how to remove it there."""

from collections.abc import Mapping

_POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
_SLOT, _PUBLICATION = "debezium", "dbz_publication"  # Debezium's defaults


def remains_of(config: Mapping[str, str | None]) -> list[str]:
    """Return a sentence for each thing that stays and costs something; it shows no secret.

    >>> remains_of({"connector.class": "FilesSink"})
    []
    """
    if config.get("connector.class") != _POSTGRES or (config.get("slot.drop.on.stop") or "").lower() == "true":
        return []
    slot, publication = config.get("slot.name") or _SLOT, config.get("publication.name") or _PUBLICATION
    place = f"{config.get('database.hostname') or 'the server'}/{config.get('database.dbname') or 'the database'}"
    literal, name = slot.replace("'", "''"), publication.replace('"', '""')
    return [
        f"The replication slot {slot} of {place} stays, and Postgres keeps its log (WAL) from there on, until the disk "
        f"is full. Once nothing reads it any more, drop it: SELECT pg_drop_replication_slot('{literal}'); "
        f'DROP PUBLICATION IF EXISTS "{name}";'
    ]
