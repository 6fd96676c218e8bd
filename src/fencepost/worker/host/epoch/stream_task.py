"""The task of a DataFrame stream: epochs whose records Spark's tasks write together with their offsets (KIP-447).

plan ▸ a Spark job, in which each range is committed by itself, output and offset in one transaction. A plan need not be
durable: the group's offsets say which ranges were committed, and the rest is planned again, cut in any way (E19).
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fencepost.api import DataFrameStream
from fencepost.kafka.read.known_positions import PositionReader
from fencepost.kafka.wire.experience import planned_by_topic
from fencepost.spark.epoch.records import EpochRecords
from fencepost.task.channel.message import RunState
from fencepost.task.channel.split_message import EpochOutput, EpochReading
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.delivery import topics_of
from fencepost.task.sink.epoch_plan import EpochOffsets, OpenEpoch
from fencepost.task.sink.reader import OutputGuard
from fencepost.task.start.counters import StreamCounters
from fencepost.task.tracing.tracing import FrameBatch
from fencepost.transaction.input_fence import Fenced
from fencepost.transaction.stable_positions import StablePositions
from fencepost.worker.host.epoch.task import EpochTask
from fencepost.worker.host.frame.task import FrameHost

if TYPE_CHECKING:
    from fencepost.spark.session.session import SparkRuntime


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
