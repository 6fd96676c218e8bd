"""Converts and sends what `poll` has returned."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fencepost.record import Batch
from fencepost.task.delivery.delivery import Delivery
from fencepost.task.delivery.finish import LastSent
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.delivery.topic_creation import TopicCreation
from fencepost.task.life.counters import Counters
from fencepost.task.life.current_delivery import CurrentDelivery
from fencepost.task.life.task_run import TaskRun
from fencepost.task.source.commit_callbacks import CommitCallbacks
from fencepost.task.source.pending_offsets import PendingOffsets
from fencepost.task.source.processing import Processor


@dataclass
class SourceSender:
    """Sends the records of one task instance. `last_sent` is None unless the task adds records to transactions."""

    run: TaskRun[Counters]
    processor: Processor
    topics: TopicCreation
    current: CurrentDelivery[Delivery]
    offsets: PendingOffsets
    callbacks: CommitCallbacks
    last_sent: LastSent | None

    def send(self, batches: Sequence[Batch], *, is_last: bool = False) -> bool:
        """Send `batches`; before the last ones of a transaction, its offsets. Returns whether the offsets were sent."""
        with self.run.tracing.step("convert"):
            processed = [(batch, self.processor.process(batch)) for batch in batches]
        ready = [(batch, self.run.tracing.stamped(outgoing)) for batch, outgoing in processed]
        for _, outgoing in ready:
            self.topics.ensure(outgoing.topics)
        if ready:
            self.current.ensure_ready()
        self.offsets.add(batches)
        is_covered = is_last and bool(ready) and not self.offsets.updates
        is_covered = is_covered and self.current.delivery.cover(self.offsets.records())
        for batch, outgoing in ready:
            self._send(batch, outgoing)
        if self.offsets.acknowledged is not None:
            self.offsets.acknowledged.relieve(self.current.delivery)
        return is_covered

    def begin(self) -> None:
        """Record the last records of another transaction from now on."""
        self.last_sent = None if self.last_sent is None else self.last_sent.successor()

    def _send(self, batch: Batch, outgoing: Outgoing) -> None:
        acknowledged, counters = self.offsets.acknowledged, self.run.counters
        queued = None if acknowledged is None else acknowledged.sent(batch, outgoing)
        if self.last_sent is not None:
            outgoing = replace(outgoing, callbacks=self.last_sent.callbacks_for(batch, outgoing))
        self.current.send(
            outgoing,
            lambda index: batch.record(index if outgoing.sources is None else outgoing.sources[index]).origin,
            self.callbacks.on_delivered(batch, outgoing, queued),
        )
        counters.sent(len(outgoing), outgoing.topics)
        if outgoing.letters is not None:  # E15
            counters.sent_dead_letters(len(outgoing.letters))
            self.current.delivery.send(outgoing.letters, queued)
