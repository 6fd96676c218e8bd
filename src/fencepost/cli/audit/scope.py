"""What an audit reads, and how far it is."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from fencepost.cli.audit.files import files_scope
from fencepost.cli.audit.mirror import mirror_scope
from fencepost.cli.client import BOOTSTRAP, client_properties
from fencepost.cli.connect import Connect
from fencepost.config import ConfigError
from fencepost.config.connector import RuntimeChoice
from fencepost.connector.files.sink import FilesSink
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger.audit import Audit
from fencepost.ledger.files_audit import FilesAudit
from fencepost.ledger.mirror_audit import MirrorAudit
from fencepost.mirror.source.connector import MirrorSourceConnector
from fencepost.record import TopicPartition
from fencepost.worker.connector_classes import class_of

_READER = "fencepost-audit"  # a group without commits
_KEY = RuntimeChoice.key_of("ledger_topic")
_EACH = 1_000_000  # records between two lines about the progress


def audit_of(
    connect: Connect, name: str, properties: Path | None, bootstrap: str | None, ledger: str | None, *, wait_s: float
) -> Audit | FilesAudit | MirrorAudit:
    """Return the audit of a connector. Asks a worker only if no `ledger` is given. Raises ConfigError, RefusedError."""
    config = {} if ledger else connect.get("connectors", name, "config")
    connector = _class_of(config)
    if issubclass(connector, FilesSink):
        own = config.get(f"consumer.override.{BOOTSTRAP}")
        scope = files_scope(config, connect.get("connectors", name, "offsets"))
        return FilesAudit(_conf(client_properties(properties, bootstrap, own)), name, scope)
    if issubclass(connector, MirrorSourceConnector):
        target = None if properties is None and bootstrap is None else client_properties(properties, bootstrap)
        positions = connect.get("connectors", name, "offsets")
        return MirrorAudit(name, mirror_scope(connector, config, positions, target, _READER), wait_s=wait_s)
    own = config.get(f"producer.override.{BOOTSTRAP}")
    given = client_properties(properties, bootstrap, own)
    topic = (ledger or config.get(_KEY, given.get(_KEY)) or "").strip()
    if not topic or topic.startswith("${"):
        raise ConfigError(
            f"{name} has no {_KEY} in its config: set it, or name the topic with --ledger, or the worker's file with "
            "--properties"
        )
    return Audit(_conf(given), topic, name, wait_s=wait_s)


def _class_of(config: Mapping[str, str | None]) -> type[Any]:
    try:
        return class_of(config)
    except ConfigError:
        return object  # it is not installed here, or not known


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
