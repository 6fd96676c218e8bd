"""Resends the dead letters of a sink, each once, however often the command runs, and whatever fails in between.

1. The transactional id is taken: another process that sends the same dead letters is fenced.
2. Only then is it read how far they were resent.
3. Dead letters, and the position after them, become visible in one transaction; then the next.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from fencepost.api import FatalError
from fencepost.cli.dead_letters.dead_letter import DeadLetter
from fencepost.cli.dead_letters.progress import Mark, ResendProgress, progress_name
from fencepost.kafka.read.bookmark import Bookmark
from fencepost.kafka.read.browse import Range, TopicBrowser, TopicRecord
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.transaction import CommitUnknownError, ProduceError, TransactionalWriter

log = logging.getLogger(__name__)

_AT_ONCE = 500
_ATTEMPTS = 3


class DeadLetterRefusedError(FatalError):
    """Kafka refuses a dead letter; nothing of its transaction is sent. The text names it."""

    def __init__(self, what: str) -> None:
        place = what.partition(" ")[0]
        super().__init__(
            f"Dead letter {what}. Fix that, or pass over it with --skip {place}. Dead letters before it are sent"
        )


@dataclass(frozen=True)
class Skipped:
    """Dead letters that are not to be sent, by their places and by the topics that they came from."""

    places: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()

    @classmethod
    def of(cls, named: Sequence[str]) -> "Skipped":
        """Parse a user's names: `orders-dead-0@4` is a dead letter, a name without @ is a topic."""
        return cls(frozenset(n for n in named if "@" in n), frozenset(n for n in named if "@" not in n))

    def has(self, dead_letter: DeadLetter) -> bool:
        return dead_letter.place in self.places or (
            dead_letter.origin is not None and dead_letter.origin[0] in self.topics
        )


@dataclass(frozen=True)
class Resend:
    """The dead letters of one sink that wait to be resent, as of the creation of the browser.

    `own_topic` is a topic that only the sink reads, which treats them as records of their original topics. If it is
    empty, they go to their original topics and partitions. `skipped` are dead letters that are passed over.
    """

    connector: str
    browser: TopicBrowser
    bookmark: Bookmark
    own_topic: str = ""
    skipped: Skipped = field(default_factory=Skipped)

    def is_mine(self, record: TopicRecord) -> bool:
        """Say whether it is a dead letter of this connector with a header about its origin."""
        dead_letter = DeadLetter.of(self.browser.topic, record)
        return dead_letter.connector == self.connector and dead_letter.origin is not None

    def waiting(self) -> dict[int, Range]:
        """Return the ranges of the dead letter topic that were not handled yet."""
        known = ResendProgress(self.connector, self.browser, self.bookmark).read()
        return {p: (max(known.get(p, first), first), end) for p, (first, end) in self.browser.ranges.items()}

    def targets(self) -> Counter[str]:
        """Return how many dead letters wait, by the topic that they came from."""
        dead_letters = (
            DeadLetter.of(self.browser.topic, r) for r in self.browser.read(self.waiting()) if self.is_mine(r)
        )
        sent = (dead_letter for dead_letter in dead_letters if not self.skipped.has(dead_letter))
        return Counter(dead_letter.origin[0] for dead_letter in sent if dead_letter.origin is not None)

    def skips(self) -> int:
        """Return how many of the waiting dead letters are to be passed over."""
        dead_letters = (
            DeadLetter.of(self.browser.topic, r) for r in self.browser.read(self.waiting()) if self.is_mine(r)
        )
        return sum(self.skipped.has(dead_letter) for dead_letter in dead_letters)

    def nowhere(self, partitions: Mapping[str, int | None]) -> dict[str, list[str]]:
        """Return the waiting dead letters without a destination: their places, by the missing topic or partition.

        `partitions`: how many each topic has; None if the topic does not exist.
        """
        found: dict[str, list[str]] = {}
        for record in self.browser.read(self.waiting()):
            dead_letter = DeadLetter.of(self.browser.topic, record)
            if (
                not self.is_mine(record)
                or self.skipped.has(dead_letter)
                or self.own_topic
                or dead_letter.origin is None
            ):
                continue
            topic, partition = dead_letter.origin
            count = partitions.get(topic)
            if count is None:
                found.setdefault(f"topic {topic}, which does not exist", []).append(dead_letter.place)
            elif partition >= count:
                found.setdefault(f"partition {partition} of topic {topic}, which has {count}", []).append(
                    dead_letter.place
                )
        return found

    def send(self, conf: Mapping[str, Any], committed: Callable[[int], None] = lambda _: None) -> int:
        """Send what waits; returns how many dead letters that were.

        Args:
            conf: Of a transactional producer.
            committed: Called with how many were sent, after each transaction.

        Raises what `TransactionalWriter` raises, if a second and a third try do not help; FatalError if the group has
        members; DeadLetterRefusedError, which names the dead letter, if Kafka refuses one.
        """
        sent, failures, at_once = 0, 0, _AT_ONCE
        while True:
            self.bookmark.ensure_no_members()
            writer = TransactionalWriter(conf, progress_name(self.connector))
            refused: list[str] = []
            try:
                writer.open()  # 1
                for count in self._transactions(writer, at_once, refused):
                    sent, failures = sent + count, 0
                    committed(count)
                    if writer.is_struck:  # E5
                        break
                else:
                    return sent
            except (CommitUnknownError, ProduceError) as error:
                failures += 1
                if isinstance(error, ProduceError) and error.is_refused and refused:
                    if at_once == 1:
                        raise DeadLetterRefusedError(refused[0]) from error
                    at_once = 1  # a broker refuses whole batches: one by one, the refused dead letter is found
                    continue
                if failures == _ATTEMPTS or (isinstance(error, ProduceError) and error.is_refused):
                    raise
                log.warning("resending dead letters of %s continues after an error: %s", self.connector, error)
            finally:
                writer.abort()
                writer.close()

    def _transactions(self, writer: TransactionalWriter, at_once: int, refused: list[str]) -> Iterator[int]:
        """Yield how many dead letters each transaction had, once it is committed; fills `refused` with refusals."""
        for partition, (first, end) in self.waiting().items():  # 2
            records = self.browser.read({partition: (first, end)})
            while chunk := list(islice(records, at_once)):
                mine = [DeadLetter.of(self.browser.topic, record) for record in chunk if self.is_mine(record)]
                offset = chunk[-1].offset + 1
                sent = [dead_letter for dead_letter in mine if not self.skipped.has(dead_letter)]
                for dead_letter in sent:
                    self._send(writer, dead_letter, refused)
                if mine:
                    self._mark(writer, partition, offset)
                self._commit(writer, partition, offset)  # 3
                yield len(sent)

    def _send(self, writer: TransactionalWriter, dead_letter: DeadLetter, refused: list[str]) -> None:
        assert dead_letter.origin is not None
        topic, partition = (self.own_topic, None) if self.own_topic else dead_letter.origin
        record, headers = (
            dead_letter.record,
            dead_letter.resent_headers if self.own_topic else dead_letter.copied_headers,
        )

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                refused.append(f"{dead_letter.place} is refused by topic {topic}: {error.str()}")

        fields = {"key": record.key, "partition": partition, "headers": headers or None, "on_delivery": delivered}
        try:
            writer.send(topic, record.value, **fields)
        except ProduceError as error:
            refused.append(f"{dead_letter.place} is refused by topic {topic}: {error}")
            raise

    def _mark(self, writer: TransactionalWriter, partition: int, offset: int) -> None:
        mark = Mark.of(self.connector, offset)
        writer.send(self.browser.topic, mark.value, key=mark.key, partition=partition, headers=mark.headers)

    def _commit(self, writer: TransactionalWriter, partition: int, offset: int) -> None:
        offsets = [GroupOffset(self.browser.topic, partition, offset)]
        writer.commit(group_offsets=offsets, group_metadata=self.bookmark.metadata)
