"""Sends what tasks have staged, and the decision about it, in one transaction of the driver.

1 take the transactional id over, which ends what a predecessor left open ▸ 2 read the decision ▸ 3 skip a batch that is
decided ▸ 4 check the topics ▸ 5 send everything, and offsets of a group ▸ 6 send the decision ▸ 7 end the transaction.

1 must precede 2 (E3): until then a predecessor may still commit. 6 comes after every answer to 5, so that a decision is
open for milliseconds. Any error is settled by 1 and 2: a commit whose answer was lost is found there, and anything else
was aborted there.
"""

import logging
import time
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from fencepost.api import FatalError, FencedError
from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.produce.batch_client import BatchClient
from fencepost.kafka.produce.transactional_client import Failure, ProducerError
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.value.position import GroupOffset
from fencepost.kafka.wire.requests import Target, Targets
from fencepost.spark.write.decision import (
    Decision,
    DecisionTopic,
    ensure_first,
    ensure_kept,
    is_decided,
    record_key,
    transactional_id,
)
from fencepost.spark.write.options import WriterConfig
from fencepost.spark.write.staging import SEVERAL_WRITES, BatchTooLargeError, Staged

log = logging.getLogger(__name__)

_TAKE_OVER_S = 60.0
_ANSWER_S = 60.0
_SETTLED_BY_RETRY = (Failure.PASSING, Failure.FENCED)
Kept = MutableMapping[str, "Committer"]


class TopicChangedError(FatalError):
    """A topic is not the one for which the rows were placed."""


@dataclass(frozen=True)
class PendingBatch:
    """A batch to be committed. `key` names the write, and numbers grow with each of its batches.

    `digest` says what the batch is made of: a batch with the same number and another digest is refused. `offsets` are
    committed in its transaction to the group of option `commit.group`. `home` is the name of `home_of`, if the query
    has one. `frame` is what errors call the write of a frame; it is empty for a micro-batch. The newest decision must
    be about batch `least`, or a later one, and none is before the offsets `after` of its topic.
    """

    key: str
    number: int
    digest: str = ""
    offsets: Sequence[GroupOffset] = ()
    home: str = ""
    frame: str = ""
    least: int = -1
    after: Mapping[int, int] | None = None

    @property
    def name(self) -> str:
        return self.frame or f"batch {self.number}"

    @property
    def smaller(self) -> str:
        """Return what makes it smaller."""
        return SEVERAL_WRITES if self.frame else "let a trigger read less (maxOffsetsPerTrigger)"


def commit_batch(config: WriterConfig, batch: PendingBatch, staged: Sequence[Staged], kept: Kept) -> bool:
    """Write a batch with its decision; return False if it was written already. Then its output can be removed.

    After an error, it is tried once more, with the id taken over again. `kept` holds producers for the next batches.

    Raises:
        DecidedOtherwiseError: A different batch of this number, or a later one, is written.
        MissingDecisionError: Decisions were lost, so that the batch may be written already.
        EmptiedCheckpointError: The query has written before, and its checkpoint is empty.
        FencedError: Another run of the write of a frame has the id. It is not taken back, as two runs would take it
            from each other in turns.
        TopicChangedError: The batch must be encoded again, which running it again does.
        BatchTooLargeError: It does not fit its transaction.
        FatalError: Kafka refuses it.
        KafkaUnavailableError: Kafka cannot be reached.
    """
    committer = kept.pop(batch.key, None)
    if committer is not None and not committer.is_next(config, batch):
        committer.close()
        committer = None
    is_late = True
    for is_last in (False, True):
        committer = committer or Committer(config, batch.key, batch.after)
        began_s = time.monotonic()
        try:
            is_written = committer.commit(batch, staged)
            kept[batch.key] = committer
            return is_written
        except ProducerError as error:
            committer.close()
            committer = None
            was_late = time.monotonic() - began_s > config.transaction_timeout_s
            is_late &= was_late
            if batch.frame and error.failure is Failure.FENCED and not was_late:
                raise FencedError(
                    f"another run of {batch.name} has begun: this one was fenced, and nothing of it is committed"
                ) from None
            if is_last or error.failure not in _SETTLED_BY_RETRY:
                raise _refusal(config, batch, staged, str(error), is_late=is_late) from None
            log.warning("%s (%s) is tried once more: %s", batch.name, batch.key, error)
        except BaseException:
            committer.close()
            raise
    raise AssertionError("the second try returns or raises")


def _refusal(
    config: WriterConfig, batch: PendingBatch, staged: Sequence[Staged], error: str, *, is_late: bool
) -> FatalError:
    size_bytes = sum(each.size_bytes for each in staged)
    if is_late:
        return BatchTooLargeError(
            f"{batch.name} has {size_bytes:,} bytes, and was not sent within its transaction's "
            f"{config.transaction_timeout_s:g} s, twice: {batch.smaller}, or raise kafka.transaction.timeout.ms, and "
            f"the broker's transaction.max.timeout.ms. The last error: {error}"
        )
    return FatalError(
        f"{batch.name} ({size_bytes:,} bytes) could not be committed with transactional id "
        f"{transactional_id(batch.key)}: {error}. Run it again: nothing is written twice"
    )


def forget_home(config: WriterConfig, home: str) -> None:
    """Let a query that must not run begin again with the checkpoint location of its `home_of`. Idempotent.

    Raises ProducerError and KafkaUnavailableError.
    """
    with closing(DecisionTopic(config)) as topic:
        found = topic.newest(home)
        partition = topic.partition(home)
    if found is None:
        return
    id_ = transactional_id(found.digest)
    client = BatchClient({**config.conf(ClientKind.PRODUCER), "transactional.id": id_})
    try:
        client.init_transactions(_TAKE_OVER_S)  # a late start of the query writes it no more
        client.begin()
        client.produce(config.offsets_topic, None, key=record_key(home), partition=partition)
        client.commit(_ANSWER_S)
    finally:
        client.drop()


class Committer:
    """A producer with the transactional id of one write, and the newest `decision` about it. For one thread."""

    def __init__(self, config: WriterConfig, key: str, after: Mapping[int, int] | None = None) -> None:
        """Send nothing yet. `after` is that of `PendingBatch`."""
        conf = config.conf(ClientKind.PRODUCER)
        self._config = config
        self._key = key
        self._after = after
        self._client = BatchClient({**conf, "transactional.id": transactional_id(key)})
        self._targets = Targets(conf)
        self.decision: Decision | None = None
        self._partition = -1  # where the decision goes; unknown until the id was taken over
        self._home: tuple[str, int] | None = None  # name and partition of the query's record, until it is written

    def is_next(self, config: WriterConfig, batch: PendingBatch) -> bool:
        """Return whether the batch follows the one that this committer has decided.

        If not, another process has decided since, and the decision must be read again.
        """
        same = config.originals == self._config.originals
        return same and self.decision is not None and self.decision.batch == batch.number - 1

    def commit(self, batch: PendingBatch, staged: Sequence[Staged]) -> bool:
        """Write the batch, or return False if it is decided. After any error, close this committer.

        Raises ProducerError and the errors of `commit_batch`.
        """
        if self._partition < 0:
            self._take_over(batch.home)
        if is_decided(self.decision, batch.number, batch.digest):  # 3
            return False
        ensure_kept(self.decision, batch.number, batch.least, self._config.offsets_topic)
        self._check_topics(staged)  # 4
        decision = Decision(batch.number, batch.digest, sum(each.rows for each in staged), int(time.time() * 1000))
        self._client.begin()
        for each in staged:
            for place, encoded in each.batches():
                self._client.produce_encoded(place, encoded)  # 5
        self._client.flush(_ANSWER_S)
        if batch.offsets and self._config.commit_group is not None:
            self._client.begin_offsets(batch.offsets, memberless(self._config.commit_group), _ANSWER_S)
            self._client.await_offsets()
        key, value = decision.record(self._key)
        if self._home is not None:
            home, partition = self._home
            name, of_query = Decision(0, self._key, decision.rows, decision.at_ms).record(home)
            self._client.produce(self._config.offsets_topic, of_query, key=name, partition=partition)
        self._client.produce(self._config.offsets_topic, value, key=key, partition=self._partition)  # 6
        self._client.commit(_ANSWER_S)  # 7
        self.decision, self._home = decision, None
        return True

    def forget(self) -> None:
        """Delete the decision about a batch that cannot be run again. Never raises: it is harmless if it stays."""
        key = record_key(self._key)
        try:
            self._client.begin()
            self._client.produce(self._config.offsets_topic, None, key=key, partition=self._partition)
            self._client.commit(_ANSWER_S)
        except ProducerError as error:
            log.info("cannot delete the decision of %s: %s", self._key, error)

    def close(self) -> None:
        """Close the connections without ending anything. Idempotent."""
        self._client.drop()
        self._targets.close()

    def _take_over(self, home: str) -> None:
        self._client.init_transactions(_TAKE_OVER_S)  # 1
        with closing(DecisionTopic(self._config, self._after)) as topic:
            self.decision = topic.newest(self._key)  # 2, E23
            if home:
                if self.decision is None:
                    ensure_first(topic.newest(home), home, self._key)
                self._home = home, topic.partition(home)
            self._partition = topic.partition(self._key)

    def _check_topics(self, staged: Sequence[Staged]) -> None:
        wanted = {(topic, target) for each in staged for topic, target in each.targets.items()}
        found = {topic: self._targets.get(topic, with_limit=False) for topic in {topic for topic, _ in wanted}}
        for topic, target in sorted(wanted):
            if reason := difference(target, found[topic]):
                raise TopicChangedError(
                    f"topic {topic} {reason} since the rows of this batch were placed: start the query again, which "
                    "writes the batch again"
                )


def difference(before: Target, now: Target) -> str | None:
    """Return why batches for one topic must not be written to the other; None if they may. A topic may grow."""
    if before.id != now.id:
        return "was deleted and created again"
    if before.partitions > now.partitions:
        return f"has only {now.partitions} of {before.partitions} partitions"
    return None
