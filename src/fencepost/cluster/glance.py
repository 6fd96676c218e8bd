"""Connectors and tasks at a glance: one word for each state and kind, for the command line and the web pages alike.

`one` is what `GET /connectors?expand=status&expand=info&expand=figures` says of a connector; Kafka Connect has no
figures.
"""

from collections.abc import Mapping
from typing import Any

RETRYING, STANDS_STILL = "RETRYING", "STANDS STILL"
WORST_FIRST = ("FAILED", STANDS_STILL, "UNASSIGNED", RETRYING, "RESTARTING", "STOPPED", "PAUSED", "RUNNING")
AT_REST = frozenset({"PAUSED", "STOPPED"})
"""The states of a connector that is not to run."""

_EXACTLY_ONCE: Mapping[Any, str] = {True: "exactly once", False: "at least once", None: "not known"}
_POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
_SLOT, _PUBLICATION = "debezium", "dbz_publication"  # Debezium's defaults


def figures_of(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the figures of those of a connector's tasks of which something is known."""
    return [task for task in (one.get("figures") or {}).get("tasks") or () if task.get("kind") is not None]


def task_word(task: Mapping[str, Any], figures: Mapping[str, Any] | None) -> str:
    """Return the word for a task, given its status and its figures."""
    state, figures = str(task["state"]), figures or {}
    if state in ("RUNNING", "UNASSIGNED") and figures.get("stands_still"):
        return STANDS_STILL
    return RETRYING if state == "RUNNING" and figures.get("retrying") else state


def task_words(one: Mapping[str, Any]) -> list[str]:
    """Return the words for a connector's tasks, in their order."""
    known = {task["id"]: task for task in figures_of(one)}
    return [task_word(task, known.get(task["id"])) for task in one["status"]["tasks"]]


def connector_word(one: Mapping[str, Any]) -> str:
    """Return the worst of a connector's and its tasks' words; if it is not to run, that."""
    own = str(one["status"]["connector"]["state"])
    if own in AT_REST:
        return own
    words = {own, *task_words(one)}
    return next((word for word in WORST_FIRST if word in words), own)


def kind_word(one: Mapping[str, Any]) -> str:
    """Return source, sink, stream or mirror; `unknown` if its class is not installed."""
    figures, info = one.get("figures") or {}, one.get("info") or {}
    return str(figures.get("kind") or info.get("type") or one["status"].get("type") or "unknown")


def delivery_word(one: Mapping[str, Any]) -> str:
    """Return how often what a connector moves arrives; `-` where workers do not say it."""
    delivery = (one.get("figures") or {}).get("delivery")
    return "-" if delivery is None else _EXACTLY_ONCE[delivery["exactly_once"]]


def why_not_exactly_once(one: Mapping[str, Any]) -> str | None:
    """Return why a connector is not, or may not be, exactly once, with what to change; None if it is."""
    delivery = (one.get("figures") or {}).get("delivery") or {}
    return "; ".join(filter(None, (delivery.get("because"), delivery.get("remedy")))) or None


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
