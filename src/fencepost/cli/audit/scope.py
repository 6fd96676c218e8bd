"""What an audit reads, and how far it is."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from fencepost.cli.audit.files import files_scope
from fencepost.cli.client import BOOTSTRAP, client_properties
from fencepost.cli.connect import Connect
from fencepost.config import ConfigError
from fencepost.config.connector import RuntimeChoice
from fencepost.connector.files.sink import FilesSink
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger.audit import Audit
from fencepost.ledger.files_audit import FilesAudit
from fencepost.record import TopicPartition
from fencepost.worker.connector_classes import class_of

_READER = "fencepost-audit"  # a group without commits
_KEY = RuntimeChoice.key_of("ledger_topic")
_EACH = 1_000_000  # records between two lines about the progress


def audit_of(
    connect: Connect, name: str, properties: Path | None, bootstrap: str | None, ledger: str | None, *, wait_s: float
) -> Audit | FilesAudit:
    """Return the audit of a connector. Asks a worker only if no `ledger` is given. Raises ConfigError, RefusedError."""
    config = {} if ledger else connect.get("connectors", name, "config")
    if _is_files_sink(config):
        own = config.get(f"consumer.override.{BOOTSTRAP}")
        scope = files_scope(config, connect.get("connectors", name, "offsets"))
        return FilesAudit(_conf(client_properties(properties, bootstrap, own)), name, scope)
    own = config.get(f"producer.override.{BOOTSTRAP}")
    given = client_properties(properties, bootstrap, own)
    topic = (ledger or config.get(_KEY, given.get(_KEY)) or "").strip()
    if not topic or topic.startswith("${"):
        raise ConfigError(
            f"{name} has no {_KEY} in its config: set it, or name the topic with --ledger, or the worker's file with "
            "--properties"
        )
    return Audit(_conf(given), topic, name, wait_s=wait_s)


def _is_files_sink(config: Mapping[str, str | None]) -> bool:
    try:
        return issubclass(class_of(config), FilesSink)
    except ConfigError:
        return False  # the class is not installed here


def _conf(given: Mapping[str, str]) -> Mapping[str, Any]:
    return range_conf({**given, "isolation.level": "read_committed"}, _READER).conf


class Progress:
    """Shows on a terminal how far partitions were read."""

    def __init__(self) -> None:
        self._shown: dict[TopicPartition, int] = {}

    def __call__(self, place: TopicPartition, offset: int, end: int) -> None:
        if sys.stderr.isatty() and offset - self._shown.get(place, 0) >= _EACH:
            self._shown[place] = offset
            typer.echo(f"{place.topic}-{place.partition}: {offset} of {end}", err=True)
