"""The task of a DataFrame sink: a driver thread that is the only member of its group, and writes epoch after epoch.

An epoch: plan, made durable in the group's offsets ▸ `write`, a Spark job, then dead letters for the records that it
leaves out ▸ its token, made durable ▸ `publish` ▸ commit. Each step but the writes is a commit that the group's
coordinator accepts only from a member of the newest generation. So a start that was replaced does not get beyond its
current step, and its successor continues from what is durable (E16).
"""

import contextlib
import logging
import time
from typing import TYPE_CHECKING

from fencepost.api import DataFrameSink, RetriableError
from fencepost.config import ConfigError
from fencepost.kafka.errors import TOO_LARGE, KafkaRequestError
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.wire.experience import planned_by_topic
from fencepost.record import TopicPartition
from fencepost.spark.epoch.dead_letters import Tally, dead_letters_spec, write_dead_letters
from fencepost.spark.epoch.frame import EpochFrames
from fencepost.task.channel.split_message import EpochReading
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.failure.dead_letter import ensure_topics
from fencepost.task.sink.epoch_plan import (
    COMMIT_METADATA_MAX_BYTES,
    EPOCH_METADATA_MAX_BYTES,
    PARTITION_METADATA_BYTES,
    EpochOffset,
    EpochOffsets,
    OpenEpoch,
    decided,
    halved,
    has_room,
    newest,
    tokens,
)
from fencepost.task.tracing.tracing import FrameBatch
from fencepost.worker.host.epoch.membership import CutShortError
from fencepost.worker.host.epoch.task import EpochTask
from fencepost.worker.host.frame.task import FrameHost

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime

log = logging.getLogger(__name__)


class EpochSinkTask(EpochTask):
    """One start of the task of a DataFrame sink."""

    _connector: DataFrameSink

    def __init__(self, host: FrameHost, spec: TaskSpec, runtime: "SparkRuntime") -> None:
        super().__init__(host, spec, runtime, COMMIT_METADATA_MAX_BYTES)
        self._reader = EpochFrames(self._connector, self._properties)
        self._too_large = ""  # the epoch whose metadata the broker refused with a token larger than reserved
        self._has_dead_letters_of = ""  # the epoch whose dead letters this start has written

    def _started(self, number: int, offsets: EpochOffsets) -> None:
        self._connector.owner = f"{self._logs.admin.cluster_id()}/{self.spec.input.consumer_conf.get('group.id')}"
        start = self._connector.started
        with self._core():  # for the Spark jobs of `started`
            known = self._work.run("started", lambda: start(self._runtime.session, number, tokens(offsets)))
        self._planner.known = max(self._planner.known, known or 0)

    def _decided_elsewhere(self) -> dict[TopicPartition, EpochOffset]:
        """Return decided epochs of topics that were removed from the config: they still have to be finished."""
        group = GroupOffsets(self.spec.input.reader_admin_conf, str(self.spec.input.consumer_conf["group.id"]))
        others = {TopicPartition(o.topic, o.partition): EpochOffset.of(o) for o in group.read_with_metadata()}
        self._planner.known = max(self._planner.known, newest(others))
        return {p: s for p, s in decided(others).items() if p not in self.membership.held.offsets}

    def _make_durable(self, plan: OpenEpoch) -> None:
        self._commit_plan(plan)

    def _commit_plan(self, epoch: OpenEpoch) -> None:
        """Commit the metadata of an epoch. If it is too large for the broker, the next plans have fewer.

        If they are refused only because of a token longer than reserved, half of the ranges are left out and the rest
        is written again. Otherwise the ranges stay: `write` may have published them, and a durable plan has fit.
        """
        try:
            self.membership.commit(epoch.offsets())
        except KafkaRequestError as error:
            had_room = epoch.token is not None and has_room(epoch.token)
            if error.code not in TOO_LARGE or had_room:
                raise
            count = len(epoch.epoch.ranges)
            if count == 1:
                raise KafkaRequestError(
                    f"{error}: the metadata of one partition's offset may be too large. Raise message.max.bytes and "
                    "offset.metadata.max.bytes of the brokers, or let the sink return a shorter token",
                    error.code,
                ) from error
            assert self._planner.metadata_max_bytes is not None
            self._planner.metadata_max_bytes = (
                min(self._planner.metadata_max_bytes, count * PARTITION_METADATA_BYTES) // 2
            )
            if epoch.token is not None:
                self._too_large = epoch.epoch.id
            raise CutShortError(f"the metadata of {count} offsets is too large for one commit: {error}") from error

    def _finish(self, epoch: OpenEpoch, batch: FrameBatch) -> None:
        if epoch.token is None and epoch.epoch.id == self._too_large:
            self._too_large = ""
            self.membership.commit(halved(epoch))
            return
        session, began_s = self._runtime.session, time.monotonic()
        if epoch.token is None:
            epoch = self._written(epoch)
        token = epoch.token or ""
        self._step("publish", lambda: self._connector.publish(session, epoch.epoch, token))
        self.tracing.commit_begun(time.monotonic())
        self.membership.commit(epoch.ended())
        self.tracing.committed(time.monotonic())
        self._ended(epoch.epoch, began_s)
        with contextlib.suppress(CutShortError):
            self._step("published", lambda: self._connector.published(session, epoch.epoch, token))

    def _written(self, epoch: OpenEpoch) -> OpenEpoch:
        with_schemas = self._with_schemas(epoch)
        if with_schemas is not epoch:  # it was planned before the connector's converter had any
            epoch = with_schemas
            self._commit_plan(epoch)
        with self._core():
            has_dead_letters = self._reader.has_dead_letters
            reading = EpochReading(
                self.spec.input.reader_conf,
                dead_letters_spec(self.spec) if has_dead_letters else None,
                registry=self._reader.registry_conf,
                topic_ids=epoch.topic_ids,
                led=planned_by_topic(self.spec.input.reader_conf, (each.place for each in epoch.epoch.ranges)),
            )
            run = self._jobs.run = self._host.channel.add(reading)
            tally = Tally() if has_dead_letters and self._connector.writes_at_once else None

            def write() -> str:
                session, url = self._runtime.session, self._host.channel.url
                frame = self._reader.frame(session, epoch.epoch, url, run, tally, epoch.schemas)
                self.control.move()
                return self._connector.write(session, frame, epoch.epoch)

            try:
                token = self._step("write", write)
                count = None if tally is None else tally.count()
                if has_dead_letters and count != 0 and self._has_dead_letters_of != epoch.epoch.id:
                    self._step("dead letters", lambda: self._write_dead_letters(epoch, run, count))
                    self._has_dead_letters_of = epoch.epoch.id
            finally:
                self._host.channel.remove(run)
        written = epoch.with_token(token)
        offsets = written.offsets()
        if max(len(s.metadata.to_text().encode()) for s in offsets.values()) > EPOCH_METADATA_MAX_BYTES:
            name = type(self._connector).__name__
            raise ConfigError(f"{name}.write() returned a token that is too long: keep it below 1,000 characters")
        self._commit_plan(written)
        return written

    def _write_dead_letters(self, epoch: OpenEpoch, run: str, count: int | None) -> None:
        """Write the records that were left out to the dead letter topic; all are safe there when this returns (E13).

        `count`: how many there were, if known. Raises RetriableError if fewer are left out now because the registry
        knows a schema that it did not know when the epoch was written: those records would be nowhere.
        """
        session, url = self._runtime.session, self._host.channel.url
        ensure_topics(self.spec)
        left_out = self._reader.left_out(session, epoch.epoch, url, run, epoch.schemas)
        converter = self._properties["value.converter"]
        written = write_dead_letters(left_out, url, run, converter, self._reader.misfit)
        if count is not None and written < count and self._reader.registry_conf is not None:
            raise RetriableError(
                f"{count - written} records of epoch {epoch.epoch.number} that could not be read when it was written "
                "can be read now, or are gone from the topic: it is written again"
            )
        self.counters.errors.left_out(written)
        if count is not None and written > count:
            log.error(
                "task %s: %d records that were written have dead letters, too: when they were read again, they did "
                "not fit the columns; please report such records", self.spec.id, written - count,
            )  # fmt: skip
        if count is not None and written < count:
            log.warning(
                "task %s: %d records that were left out have no dead letter: retention or compaction has removed them "
                "from the topic since they were read", self.spec.id, count - written,
            )  # fmt: skip
