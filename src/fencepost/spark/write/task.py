"""What the tasks of a write have in common, and what each of them does: it stages its rows."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.wire.requests import Target, Targets
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.row.registry_columns import RegistryBytes
from fencepost.spark.write.encode import Encoder
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.options import WriterConfig
from fencepost.spark.write.staging import Staged, stage

log = logging.getLogger(__name__)

_MOST_TARGETS = 16


@dataclass(frozen=True)
class TaskPlan:
    """Where all tasks of a batch stage, how much, and the topic of option `topic`; None if each row names its own."""

    folder: Folder
    target: Target | None
    most_bytes: int | None = None


def plan_tasks(config: WriterConfig, folder: Folder, most_bytes: int | None = None) -> TaskPlan:
    """Create the folder, and look up the topic once for all tasks: otherwise a key could go to two partitions if the
    topic grows.

    Raises the errors of `Targets.get`, ConfigError and OSError.
    """
    target = None if config.topic is None else _targets(config).get(config.topic)
    folder.create()
    return TaskPlan(folder, target, most_bytes)


def stage_rows(config: WriterConfig, names: Sequence[str], plan: TaskPlan, first: int, frames: Iterator[Any]) -> Staged:
    """Stage the rows of a task, on an executor. Rows without a key begin at partition `first`."""

    def target(name: str) -> Target:
        return plan.target if plan.target is not None else _targets(config).get(name)

    converter = config.converter()
    if converter is not None:
        frames = map(RegistryBytes(converter, config.topic).written, frames)
    maker, conf = RecordMaker(names, config.topic), config.conf(ClientKind.PRODUCER)
    return stage(Encoder(maker, target, conf, first), frames, plan.folder, plan.most_bytes)


def remove_staged(folder: Folder) -> None:
    """Remove what tasks have staged there. Never raises: nothing reads it any more."""
    try:
        folder.remove()
    except OSError as error:  # a second attempt of a task that is late may still write there
        log.warning("cannot remove %s, which is not needed any more: %s", folder.location, error)


def _targets(config: WriterConfig) -> Targets:
    """Return what looks topics up; its connections stay between micro-batches."""
    return _targets_of(tuple(sorted(config.conf(ClientKind.PRODUCER).items())))


@lru_cache(_MOST_TARGETS)
def _targets_of(conf: tuple[tuple[str, Any], ...]) -> Targets:
    return Targets(dict(conf))
