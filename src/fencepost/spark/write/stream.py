"""`writeStream.format("fencepost")`: each micro-batch is one Kafka transaction.

Spark has three kinds of processes for it. The planner makes a writer for each micro-batch and pickles it for the tasks,
whose `write` only stages rows. Another process on the driver's machine makes a writer again and calls `commit`. It
usually stays for the next micro-batches, of all queries; each query may also change to another one.
"""

import hashlib
import logging
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from fencepost.config import ConfigError
from fencepost.kafka.produce.target import Target, Targets
from fencepost.kafka.setting.table import ClientKind
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.write.checkpoint import Checkpoint
from fencepost.spark.write.committer import Committer, PendingBatch, commit_batch
from fencepost.spark.write.encode import Encoder
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.options import WriterConfig
from fencepost.spark.write.staging import Staged, stage

log = logging.getLogger(__name__)

_CHECKPOINT = "checkpointlocation"  # Spark hands options over in lower case
_OF_SPARK = (_CHECKPOINT, "queryname")  # what Spark puts among the options of a sink
_BATCH = "streaming.sql.batchId"
_MOST_TARGETS = 16

_committers: dict[str, Committer] = {}
"""The producers of this process, which stay between micro-batches."""


def _targets(config: WriterConfig) -> Targets:
    """Return what looks topics up; its connections stay between micro-batches."""
    return _targets_of(tuple(sorted(config.conf(ClientKind.PRODUCER).items())))


@lru_cache(_MOST_TARGETS)
def _targets_of(conf: tuple[tuple[str, Any], ...]) -> Targets:
    return Targets(dict(conf))


@dataclass(frozen=True)
class BatchPlan:
    """What all tasks of a micro-batch have in common: where they stage, and the topic of option `topic`."""

    folder: Folder
    target: Target | None


class KafkaStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Stages the rows of a micro-batch on executors, and commits them on the driver."""

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        """Check options and columns. Raises ConfigError."""
        self._config = WriterConfig.of({key: value for key, value in options.items() if key not in _OF_SPARK})
        if self._config.write_id is not None:
            raise ConfigError("option write.id is for df.write: a stream is known by its checkpoint")
        if _CHECKPOINT not in options:
            raise ConfigError(
                "option checkpointLocation is missing: set it on the writer itself, since the offsets there tell a "
                "micro-batch from another one with the same number"
            )
        self._checkpoint = Checkpoint(Folder(options[_CHECKPOINT]))
        self._names = names
        self._plan: BatchPlan | None = None
        RecordMaker(names, self._config.topic)

    def __getstate__(self) -> dict[str, Any]:
        """Plan the micro-batch: only the planner pickles a writer, for the tasks."""
        self._plan = self._plan or self._planned()
        return self.__dict__

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task, on an executor. However often it runs, nothing of it is in Kafka."""
        assert self._plan is not None
        task, plan = TaskContext.get(), self._plan

        def target(topic: str) -> Target:
            return plan.target if plan.target is not None else _targets(self._config).get(topic)

        first = task.partitionId() + int(task.getLocalProperty(_BATCH) or 0)
        maker, conf = RecordMaker(self._names, self._config.topic), self._config.conf(ClientKind.PRODUCER)
        return stage(Encoder(maker, target, conf, first), iterator, plan.folder)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Send what was staged, with the decision, unless it is decided already."""
        checkpoint = self._checkpoint
        offsets = [] if self._config.commit_group is None else checkpoint.group_offsets(batchId)
        batch = PendingBatch(checkpoint.query_id(), batchId, checkpoint.digest(batchId), offsets)
        commit_batch(self._config, batch, [each for each in messages if isinstance(each, Staged)], _committers)
        self._unstage()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what was staged. Kafka is left alone: a commit that failed may have succeeded there."""
        self._unstage()

    def _unstage(self) -> None:
        """Remove what the query has staged, also what a driver that was killed has left."""
        try:
            self._staging().remove()
        except OSError as error:  # a second attempt of a task that is late may still write there
            log.warning("cannot remove %s; the next micro-batch will: %s", self._staging().location, error)

    def _planned(self) -> BatchPlan:
        """Look up the topic once for all tasks: otherwise a key could go to two partitions if the topic grows."""
        target = None if self._config.topic is None else _targets(self._config).get(self._config.topic)
        folder = self._staging().below(uuid.uuid4().hex)
        folder.create()
        return BatchPlan(folder, target)

    def _staging(self) -> Folder:
        """Return the folder of this query alone, in which each micro-batch has its own."""
        location = self._checkpoint.folder.location
        if self._config.staging_location is None:
            return Folder(location).below("fencepost")
        name = hashlib.sha256(location.encode()).hexdigest()[:32]
        return Folder(self._config.staging_location).below(f"fencepost-{name}")
