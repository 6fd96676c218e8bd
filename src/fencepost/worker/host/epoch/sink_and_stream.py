"""The tasks of DataFrame sinks and streams: a driver thread that is the only member of its group, epoch after epoch.

An epoch of a sink: plan, made durable in the group's offsets ▸ `write`, a Spark job, then dead letters for the records
that it leaves out ▸ its token, made durable ▸ `publish` ▸ commit. Each step but the writes is a commit that the group's
coordinator accepts only from a member of the newest generation. So a start that was replaced does not get beyond its
current step, and its successor continues from what is durable (E16).

An epoch of a stream: plan ▸ a Spark job, in which each range is committed by itself, output and offset in one
transaction (KIP-447). A plan need not be durable: the group's offsets say which ranges were committed, and the rest is
planned again, cut in any way (E19).
"""

import contextlib
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fencepost.api import DataFrameSink, DataFrameStream, RetriableError
from fencepost.config import ConfigError
from fencepost.kafka.errors import TOO_LARGE, KafkaRequestError
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.read.known_positions import PositionReader
from fencepost.kafka.wire.experience import planned_by_topic
from fencepost.record import TopicPartition
from fencepost.spark.epoch.dead_letters import Tally, dead_letters_spec, write_dead_letters
from fencepost.spark.epoch.frame import EpochFrames
from fencepost.spark.epoch.records import EpochRecords
from fencepost.task.channel.message import RunState
from fencepost.task.channel.split_message import EpochOutput, EpochReading
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.delivery import topics_of
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
from fencepost.task.sink.reader import OutputGuard
from fencepost.task.start.run import StreamCounters
from fencepost.task.tracing.tracing import FrameBatch
from fencepost.transaction.input_fence import Fenced
from fencepost.transaction.stable_positions import StablePositions
from fencepost.worker.host.epoch.membership import CutShortError
from fencepost.worker.host.epoch.task import EpochTask
from fencepost.worker.host.frame.task import FrameHost

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime
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


class EpochStreamTask(EpochTask):
    """One start of the task of a DataFrame stream."""

    _connector: DataFrameStream

    def __init__(self, host: FrameHost, spec: TaskSpec, runtime: "SparkRuntime") -> None:
        super().__init__(host, spec, runtime)
        self._records = EpochRecords(self._connector, self._properties)
        self._reader = self._records.reader
        self._topics = topics_of(spec)
        self.counters: StreamCounters = StreamCounters()
        self._may_be_open = False  # a Spark task that was cut short may have left a transaction open

    def _positions(self) -> PositionReader:
        """Fence producers with an open transaction over the input, such as a Spark task of an earlier attempt (E20)."""
        return StablePositions(
            self.spec.input.consumer_conf,
            self.spec.output.producer_conf,
            on_fenced=self._count,
            on_waiting=self._tell,
            is_over=lambda: self.control.is_stopping,
            foreign=self.spec.input.foreign_ids,
        )

    def _count(self, fenced: Sequence[Fenced]) -> None:
        self.counters.producers_fenced += len(fenced)

    def _tell(self, why: str) -> None:
        self.counters.is_waiting_for_offsets = int(bool(why))
        self._status.waits_for = f"Waits: {why}" if why else None
        self._report(RunState.RUNNING)

    def _started(self, number: int, offsets: EpochOffsets) -> None:
        """Do nothing: earlier starts leave nothing that an administrator could see."""

    def _make_durable(self, plan: OpenEpoch) -> None:
        """Commit the plan's start after gaps: ranges are written from exactly the group's offsets.

        The plan itself need not be durable: see the module.
        """
        self.membership.commit_fresh()

    def _finish(self, epoch: OpenEpoch, batch: FrameBatch) -> None:
        began_s = time.monotonic()
        self._topics.ensure([self._connector.topic])
        with self._core():
            registry = self._reader.registry_conf
            output, headers = self._output(epoch), tuple(batch.headers)
            reading = EpochReading(
                self.spec.input.reader_conf,
                output=output,
                registry=registry,
                headers=headers,
                topic_ids=epoch.topic_ids,
                led=planned_by_topic(self.spec.input.reader_conf, (each.place for each in epoch.epoch.ranges)),
                leader_epochs={str(place): led for place, led in epoch.leader_epochs.items()},
            )
            run = self._jobs.run = self._host.channel.add(reading)
            session, url = self._runtime.session, self._host.channel.url
            self._may_be_open = True
            try:
                self._step("write", lambda: self._records.write(session, epoch.epoch, url, run, epoch.schemas))
            except Exception:
                self.membership.leave()  # rejoining reads the group's offsets, as some ranges may be committed
                raise
            finally:
                self._host.channel.remove(run)
        self._may_be_open = False
        self.membership.held.offsets.update(epoch.ended())
        self._ended(epoch.epoch, began_s)

    def _report_end(self, state: RunState, trace: str | None) -> None:
        """Report the end.

        If a transaction may be open, the supervisor ends it, unless another start does so: when a user sets the offsets
        of a stopped stream, that transaction must not commit others afterwards.
        """
        if state is RunState.STOPPED and self._may_be_open and not self._is_abandoned:
            self._host.events.lost([self.spec.incarnation], "it stopped while ranges of an epoch were written")
        super()._report_end(state, trace)

    def _output(self, epoch: OpenEpoch) -> EpochOutput:
        assert self.membership.input is not None
        assert self.spec.output.transactional_id is not None
        return EpochOutput(
            self.spec.output.producer_conf,
            self.spec.output.transactional_id,
            str(self.spec.input.consumer_conf["group.id"]),
            self.membership.input.metadata.hex(),
            self._connector.topic,
            {each.topic: epoch.ended_metadata(each.topic).to_text() for each in epoch.epoch.ranges},
            OutputGuard.of(self.spec).to_json(),
            self._records.converter,
        )
