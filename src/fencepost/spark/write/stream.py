"""`writeStream.format("fencepost")`: each micro-batch is one Kafka transaction.

Spark has three kinds of processes for it. The planner makes a writer for each micro-batch and pickles it for the tasks,
whose `write` only stages rows. Another process on the driver's machine makes a writer again and calls `commit`. It
usually stays for the next micro-batches, of all queries; each query may also change to another one.

Spark lets no data source in Python take the output mode `update`. A function for `foreachBatch` can write the
micro-batch with option `batch.id`: the same transaction, id and decision.
"""

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from fencepost.config import ConfigError
from fencepost.spark.partition import BATCH_OPTION
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.write.checkpoint import Checkpoint
from fencepost.spark.write.committer import Committer, PendingBatch, commit_batch
from fencepost.spark.write.decision import home_of
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.options import WriterConfig
from fencepost.spark.write.staging import all_staged
from fencepost.spark.write.task import TaskPlan, plan_tasks, remove_staged, stage_rows

_CHECKPOINT = "checkpointlocation"  # Spark hands options over in lower case
_OF_SPARK = (_CHECKPOINT, "queryname")  # what Spark puts among the options of a sink
_BATCH = "streaming.sql.batchId"

_committers: dict[str, Committer] = {}
"""The producers of this process, which stay between micro-batches."""


class KafkaStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Stages the rows of a micro-batch on executors, and commits them on the driver."""

    def __init__(self, options: Mapping[str, str], names: list[str], *, is_gapless: bool = True) -> None:
        """Check options and columns. Raises ConfigError. `is_gapless`: each micro-batch comes here, also empty ones."""
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
        self._is_gapless = is_gapless
        self._plan: TaskPlan | None = None
        RecordMaker(names, self._config.topic)

    def __getstate__(self) -> dict[str, Any]:
        """Plan the micro-batch: only the planner pickles a writer, for the tasks."""
        self._plan = self._plan or plan_tasks(self._config, self._staging().below(uuid.uuid4().hex))
        return self.__dict__

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task, on an executor. However often it runs, nothing of it is in Kafka."""
        self._checkpoint.ensure_shared()
        assert self._plan is not None
        task = TaskContext.get()
        first = task.partitionId() + int(task.getLocalProperty(_BATCH) or 0)
        return stage_rows(self._config, self._names, self._plan, first, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Send what was staged, with the decision, unless it is decided already."""
        checkpoint = self._checkpoint
        staged = all_staged(messages)
        offsets = [] if self._config.commit_group is None else checkpoint.group_offsets(batchId)
        is_known = checkpoint.has_decisions()
        least = batchId - 1 if self._is_gapless else min(0, batchId - 1)
        query_id = self._config.query_id
        home = "" if query_id is None else home_of(query_id, checkpoint.folder.location)
        digest = checkpoint.digest(batchId)
        batch = PendingBatch(checkpoint.query_id(), batchId, digest, offsets, home, least=least if is_known else -1)
        commit_batch(self._config, batch, staged, _committers)
        if not is_known:
            checkpoint.note_decisions(self._config.offsets_topic)
        remove_staged(self._staging())

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what was staged. Kafka is left alone: a commit that failed may have succeeded there."""
        remove_staged(self._staging())

    def _staging(self) -> Folder:
        """Return the folder of this query alone, in which each micro-batch has its own."""
        location = self._checkpoint.folder.location
        name = hashlib.sha256(location.encode()).hexdigest()[:32]  # nothing else has it, and it is removed whole
        return Folder(self._config.staging_location or location).below(f"fencepost-{name}")


class NumberedBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a micro-batch with the number of option `batch.id`; one that is decided is skipped."""

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        """Check options and columns. Raises ConfigError."""
        number = options[BATCH_OPTION]
        if not number.isdecimal():
            raise ConfigError(f"option {BATCH_OPTION} is {number}: set it to the number that foreachBatch passes")
        self._number = int(number)
        own = {key: value for key, value in options.items() if key != BATCH_OPTION}
        self._stream = KafkaStreamWriter(own, names, is_gapless=False)  # a function may leave a micro-batch out

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task, on an executor."""
        return self._stream.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Send what was staged, with the decision, unless it is decided already."""
        self._stream.commit(messages, self._number)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged."""
        self._stream.abort(messages, self._number)
