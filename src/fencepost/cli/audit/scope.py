"""What an audit reads, and how far it is."""

import sys
from pathlib import Path

import typer

from fencepost.cli.client import BOOTSTRAP, client_properties
from fencepost.cli.connect import Connect
from fencepost.config import ConfigError
from fencepost.config.connector import RuntimeChoice
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger.audit import Audit
from fencepost.record import TopicPartition

_READER = "fencepost-audit"  # a group without commits
_KEY = RuntimeChoice.key_of("ledger_topic")
_EACH = 1_000_000  # records between two lines about the progress


def audit_of(
    connect: Connect, name: str, properties: Path | None, bootstrap: str | None, ledger: str | None, *, wait_s: float
) -> Audit:
    """Return the audit of a connector. Asks a worker only if no `ledger` is given. Raises ConfigError, RefusedError."""
    config = {} if ledger else connect.get("connectors", name, "config")
    topic = ledger or (config.get(_KEY) or "").strip()
    if not topic or topic.startswith("${"):
        raise ConfigError(f"{name} has no {_KEY} in its config: set it, or name the topic with --ledger")
    own = config.get(f"producer.override.{BOOTSTRAP}")
    given = {**client_properties(properties, bootstrap, own), "isolation.level": "read_committed"}
    return Audit(range_conf(given, _READER).conf, topic, name, wait_s=wait_s)


class Progress:
    """Shows on a terminal how far partitions were read."""

    def __init__(self) -> None:
        self._shown: dict[TopicPartition, int] = {}

    def __call__(self, place: TopicPartition, offset: int, end: int) -> None:
        if sys.stderr.isatty() and offset - self._shown.get(place, 0) >= _EACH:
            self._shown[place] = offset
            typer.echo(f"{place.topic}-{place.partition}: {offset} of {end}", err=True)
