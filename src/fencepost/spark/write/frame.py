"""`df.write.format("fencepost")`: the rows of a frame are one Kafka transaction.

The planner makes a writer and pickles it, for the tasks, whose `write` only stages rows, and for the process on the
driver's machine that calls `commit` or `abort`.
"""

import logging
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from fencepost.config import ConfigError
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.write.committer import Committer, PendingBatch, commit_batch
from fencepost.spark.write.decision import Decision, DecisionTopic
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.former import ensure_same, former_write
from fencepost.spark.write.options import WriterConfig
from fencepost.spark.write.staging import Staged, all_staged, ensure_fits
from fencepost.spark.write.task import plan_tasks, remove_staged, stage_rows

log = logging.getLogger(__name__)

_LEAST_TIMEOUT_S = 60
_SLOWEST_BYTES_PER_S = 5_000_000  # a driver sends 100 MB/s


class KafkaFrameWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Stages the rows of a frame on executors, and commits them on the driver.

    With option `write.id`, the decision about the write is kept, and a rerun that finds it reads no rows.
    """

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        """Check options and columns, and look up whether the write is committed.

        Raises:
            ConfigError: An option or a column is wrong, or the topic of decisions is not compacted.
            FormerWriteError: An older version has committed a part of the write.
            KafkaUnavailableError: No broker answers.
        """
        self._config = WriterConfig.of(options)
        if self._config.commit_group is not None:
            raise ConfigError("option commit.group is for streams: a frame has no offsets to commit")
        if self._config.query_id is not None:
            raise ConfigError("option query.id is for streams: a frame has write.id")
        self._names = names
        RecordMaker(names, self._config.topic)
        self._key = uuid.uuid4().hex if self._config.write_id is None else self._config.write_id
        self._decision: Decision | None = None
        self._former: Decision | None = None
        self._looked_through: dict[int, int] = {}
        self._look_up()
        location = self._config.staging_location or tempfile.gettempdir()
        self._folder = Folder(location).below(f"fencepost-{uuid.uuid4().hex}")
        self._plan = plan_tasks(self._config, self._folder, self._config.most_bytes)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task, on an executor. However often it runs, nothing of it is in Kafka."""
        if self._decision is not None:
            return Staged(0, {}, [], b"")
        return stage_rows(self._config, self._names, self._plan, TaskContext.get().partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Send what was staged, with the decision, unless the write is committed already."""
        staged = all_staged(messages)
        ensure_fits(sum(each.size_bytes for each in staged), self._config.most_bytes)
        if self._former is not None:
            ensure_same(self._key, self._former, sum(each.rows for each in staged))
        found = self._decision or self._former or self._committed(staged)
        if found is not None:
            log.warning("write.id %s was committed %s: nothing is written now", self._key, found.text())
        remove_staged(self._folder)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged. Kafka is left alone: a commit that failed may have succeeded there."""
        remove_staged(self._folder)

    def _look_up(self) -> None:
        """Find out what is committed under the id. A decision is final, even if another run has the id."""
        with closing(DecisionTopic(self._config)) as decisions:
            if self._config.write_id is not None:
                self._decision = decisions.newest(self._key)
            else:
                decisions.pass_over()
            self._looked_through = decisions.ends
        if self._config.write_id is not None and self._decision is None:
            self._former = former_write(self._config, self._key)

    def _committed(self, staged: list[Staged]) -> Decision | None:
        """Write what is staged. Returns the decision if another run has committed the write in the meantime."""
        name = f"write.id {self._key}" if self._config.write_id is not None else "the write"
        kept: dict[str, Committer] = {}
        try:
            batch = PendingBatch(self._key, 0, frame=name, after=self._looked_through)
            is_written = commit_batch(self._with_timeout(staged), batch, staged, kept)
            if self._config.write_id is None:
                kept[self._key].forget()
            return None if is_written else kept[self._key].decision
        finally:
            for committer in kept.values():
                committer.close()

    def _with_timeout(self, staged: list[Staged]) -> WriterConfig:
        """Return the options with a time-out for the transaction that is as short as its size allows.

        If the driver is killed while it sends, readers wait that long.
        """
        size_bytes = sum(each.size_bytes for each in staged)
        timeout_s = min(_LEAST_TIMEOUT_S + size_bytes / _SLOWEST_BYTES_PER_S, self._config.transaction_timeout_s)
        key = "kafka.transaction.timeout.ms"
        given = {name: str(value) for name, value in self._config.originals.items()}
        return WriterConfig.of({key: str(int(timeout_s * 1000)), **given})
