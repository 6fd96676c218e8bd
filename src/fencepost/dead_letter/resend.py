"""Resends the dead letters of a sink, each once, however often that is asked for, and whatever fails in between.

1. The transactional id is taken: another process that sends the same dead letters is fenced.
2. Only then is it read how far they were resent.
3. Dead letters, and the position after them, become visible in one transaction; then the next.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.api import FatalError
from fencepost.config import ConfigError
from fencepost.config.check import LONGEST_TOPIC, topic_name
from fencepost.config.connector import SinkChoice
from fencepost.dead_letter.letter import DeadLetter, Selection, Skipped
from fencepost.dead_letter.progress import Handled, Mark, ResendProgress, progress_name
from fencepost.kafka.group.memberless import Bookmark
from fencepost.kafka.read.browse import Range, TopicBrowser, TopicRecord
from fencepost.kafka.value.position import GroupOffset
from fencepost.transaction import CommitUnknownError, ProduceError, TransactionalWriter

RESEND = SinkChoice.key_of("resend_topic")
_EXAMPLES = 3
_LISTED = 10
_fault = topic_name()
_MOST_ORIGINS = 100_000  # whoever can write to the topic can put anything into headers
log = logging.getLogger(__name__)

_AT_ONCE = 500
_AT_ONCE_BYTES = 8 << 20
_ATTEMPTS = 3


def shown_topic(name: str) -> str:
    """Return a topic's name from a header, for a text: anything can be there, of any length."""
    return name if len(name) <= LONGEST_TOPIC else f"{name[:LONGEST_TOPIC]}…"


def without_origin(place: str) -> str:
    """Return why a dead letter cannot be resent whose headers do not name its record's topic and partition."""
    return (
        f"Dead letter {place} cannot be resent: its headers do not say from which topic and partition its record came. "
        f"Pass over it permanently: --skip {place}"
    )


@dataclass(frozen=True)
class Survey:
    """How many dead letters wait, by the topic and partition that they came from, and the places of the first ones.

    `skipped` of those that wait are passed over; they are not among the counts. `lost` do not say where they came from.
    """

    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    examples: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    skipped: int = 0
    lost: tuple[str, ...] = ()

    @classmethod
    def of(cls, waiting: Iterable[DeadLetter], is_skipped: Callable[[DeadLetter], bool]) -> "Survey":
        counts, examples, skipped = Counter[tuple[str, int]](), dict[tuple[str, int], list[str]](), 0
        lost: list[str] = []
        for dead_letter in waiting:
            if is_skipped(dead_letter):
                skipped += 1
                continue
            if dead_letter.origin is None:
                lost.append(dead_letter.place)
                continue
            topic, partition = dead_letter.origin
            origin = (shown_topic(topic), partition)  # what is longer is no topic's name, and not kept whole
            counts[origin] += 1
            if len(counts) > _MOST_ORIGINS:
                raise FatalError(
                    f"By their headers, dead letters came from more than {_MOST_ORIGINS} partitions, as no sink has "
                    f"them ({dead_letter.place} is one). Nothing is sent"
                )
            places = examples.setdefault(origin, [])
            if len(places) < _EXAMPLES:
                places.append(dead_letter.place)
        return cls(counts, examples, skipped, tuple(lost))

    @property
    def total(self) -> int:
        """Return how many are to be sent."""
        return self.counts.total()

    @property
    def targets(self) -> Counter[str]:
        """Return how many are to be sent, by the topic that they came from."""
        found = Counter[str]()
        for (topic, _), count in self.counts.items():
            found[topic] += count
        return found

    def ensure_have_origins(self, connector: str) -> None:
        """Raise ConfigError, with the next step, if some do not say where they came from."""
        if not self.lost:
            return
        named = ", ".join(self.lost[:_LISTED]) + (", …" if len(self.lost) > _LISTED else "")
        raise ConfigError(
            f"{len(self.lost)} dead letters of {connector} cannot be resent: their headers do not say from which topic "
            f"and partition their records came ({named}). Nothing is "
            f"sent. Pass over each permanently, as in --skip {self.lost[0]}, or over all of a topic with --skip TOPIC"
        )

    def ensure_have_somewhere_to_go(self, connector: str, partitions: Callable[[str], int | None]) -> None:
        """Raise ConfigError, with the next step, if some came from topics or partitions that do not exist now.

        `partitions` returns how many a topic has; None if it does not exist.
        """
        nowhere = self._nowhere({t: partitions(t) if _fault(t) is None else None for t in self.targets})
        if not nowhere:
            return
        texts = [
            f"{count} of {what} ({', '.join(places)}{', …' if count > len(places) else ''})"
            for what, (count, places) in sorted(nowhere.items())[:_LISTED]
        ]
        _, places = next(iter(nowhere.values()))
        more = "; …" if len(nowhere) > _LISTED else ""
        raise ConfigError(
            f"Dead letters of {connector} came from topics or partitions that do not exist any more: "
            f"{'; '.join(texts)}{more}. Nothing is sent. Create what is missing, give the sink its own topic "
            f"({RESEND}), or pass over them permanently: --skip TOPIC passes over all dead letters that came from a "
            f"topic, --skip LETTER over one, as in --skip {places[0]}"
        )

    def _nowhere(self, partitions: Mapping[str, int | None]) -> dict[str, tuple[int, list[str]]]:
        """Return how many have no destination, and the first ones, by the missing topic or partition."""
        found: dict[str, tuple[int, list[str]]] = {}
        for (topic, partition), count in self.counts.items():
            there = partitions[topic]
            if there is not None and partition < there:
                continue
            missing = f"partition {partition} of topic {shown_topic(topic)}, which has {there}"
            what = f"topic {shown_topic(topic)}, which does not exist" if there is None else missing
            before, places = found.get(what, (0, []))
            found[what] = before + count, [*places, *self.examples[(topic, partition)]][:_EXAMPLES]
        return found


class DeadLetterRefusedError(FatalError):
    """Kafka refuses a dead letter; nothing of its transaction is sent. The text names it."""

    def __init__(self, what: str) -> None:
        place = what.partition(" ")[0]
        super().__init__(
            f"Dead letter {what}. Fix that, or pass over it with --skip {place}. Dead letters before it are sent"
        )


@dataclass(frozen=True)
class Resend:
    """The dead letters of one sink that wait to be resent, as of the creation of the browser.

    Attributes:
        own_topic: a topic that only the sink reads, which treats them as records of their original topics. If it is
            empty, they go to their original topics and partitions.
        skipped: dead letters that are passed over.
        selection: the only ones to send or pass over; None: all. The others go on waiting.
        is_wanted: asked before each dead letter is read, and before another process is fenced. If it is not, the resend
            ends with the transaction that is open; another one continues from there. Once False, it must stay False.
        reads: whether dead letters may be sent to their original topic.
    """

    connector: str
    browser: TopicBrowser
    bookmark: Bookmark
    own_topic: str = ""
    skipped: Skipped = field(default_factory=Skipped)
    selection: Selection | None = None
    is_wanted: Callable[[], bool] = lambda: True
    reads: Callable[[str], bool] = lambda _: True

    def survey(self) -> Survey:
        """Read what waits. What another process is sending is among it until that is committed.

        Raises ConfigError if something is to be passed over that is not there: it may be a wrong name of what is. Also
        if a dead letter does not say where its record was.
        """
        handled = self._progress.peek()
        met: set[str] = set()

        def is_skipped(dead_letter: DeadLetter) -> bool:
            names = self.skipped.met(dead_letter)
            met.update(names)
            return bool(names)

        survey = Survey.of(self._waiting(handled), is_skipped)
        unmet = (self.skipped.places.keys() | self.skipped.topics) - met - self._done(handled)
        if unmet & self.skipped.topics:
            unmet -= self._met_before(handled)
        if unmet and self.is_wanted():
            raise ConfigError(
                f"Nothing that waits is {', '.join(sorted(unmet)[:10])}, which is to be passed over. Nothing is sent. "
                "Name what the list of dead letters has, or leave it out"
            )
        survey.ensure_have_origins(self.connector)
        return survey

    def _done(self, handled: Mapping[int, Handled]) -> set[str]:
        """Return those to be passed over that were handled before, as when a resend is asked for again."""
        return {
            place
            for place, (partition, offset) in self.skipped.places.items()
            if partition in handled and handled[partition].has(offset)
        }

    def _met_before(self, handled: Mapping[int, Handled]) -> set[str]:
        """Return those to be passed over that dead letters have that were handled before, for the same reason."""
        found: set[str] = set()
        for record in self._read(self.browser.ranges):
            if record.partition in handled and handled[record.partition].has(record.offset):
                dead_letter = DeadLetter.of(self.browser.topic, record)
                found |= self.skipped.met(dead_letter) if dead_letter.connector == self.connector else set()
        return found

    def send(self, conf: Mapping[str, Any], committed: Callable[[int], None] = lambda _: None) -> int:
        """Send what waits; returns how many dead letters that were.

        Args:
            conf: Of a transactional producer.
            committed: Called with how many were sent, after each transaction.

        Raises what `TransactionalWriter` raises, if a second and a third try do not help; FatalError if the group has
        members, or more single dead letters were sent than can be remembered; DeadLetterRefusedError, which names the
        dead letter, if Kafka refuses one.
        """
        sent, failures, at_once = 0, 0, _AT_ONCE
        while True:
            if not self.is_wanted():
                return sent  # a successor may be sending, and must not be fenced
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

    @property
    def _progress(self) -> ResendProgress:
        return ResendProgress(self.connector, self.browser, self.bookmark)

    def _ranges(self, handled: Mapping[int, Handled]) -> dict[int, Range]:
        """Return what has to be read of each partition: from the first dead letter that was not handled."""
        found = {}
        for partition, (first, end) in self.browser.ranges.items():
            passed = handled[partition].passed if partition in handled else first
            last = end if self.selection is None else min(end, self.selection.end(partition))
            found[partition] = (max(passed, first), last)
        return {partition: (first, end) for partition, (first, end) in found.items() if first < end}

    def _waiting(self, handled: Mapping[int, Handled]) -> Iterator[DeadLetter]:
        for record in self._read(self._ranges(handled)):
            dead_letter = self._mine(record, handled.get(record.partition, Handled(0)))
            if dead_letter is not None and self._is_chosen(dead_letter):
                yield dead_letter

    def _read(self, ranges: Mapping[int, Range]) -> Iterator[TopicRecord]:
        for record in self.browser.read(ranges):
            if not self.is_wanted():
                return
            yield record

    def _mine(self, record: TopicRecord, handled: Handled) -> DeadLetter | None:
        """Return a dead letter of this connector that waits, also one that has nowhere to go: it is not passed over."""
        if handled.has(record.offset):
            return None
        dead_letter = DeadLetter.of(self.browser.topic, record)
        return dead_letter if dead_letter.connector == self.connector else None

    def _is_chosen(self, dead_letter: DeadLetter) -> bool:
        return self.selection is None or self.selection.has(dead_letter)

    def _transactions(self, writer: TransactionalWriter, at_once: int, refused: list[str]) -> Iterator[int]:
        """Yield how many dead letters each transaction had, once it is committed; fills `refused` with refusals."""
        known = self._progress.read()  # 2
        for partition, (first, end) in self._ranges(known).items():
            handled = Handled(first, known[partition].ahead if partition in known else frozenset())
            reached = first
            for chunk in _chunks(self._read({partition: (first, end)}), at_once):
                waiting = [found for record in chunk if (found := self._mine(record, handled)) is not None]
                chosen = [dead_letter for dead_letter in waiting if self._is_chosen(dead_letter)]
                left = next((one.record.offset for one in waiting if not self._is_chosen(one)), None)
                is_whole, reached = handled.passed == reached, chunk[-1].offset + 1
                passed = (reached if left is None else left) if is_whole else handled.passed
                ahead = handled.ahead.union(one.record.offset for one in chosen)
                before, handled = handled, Handled(passed, frozenset(n for n in ahead if n >= passed))
                if not chosen and handled == before:
                    continue
                handled.ensure_storable()
                sent = [dead_letter for dead_letter in chosen if not self.skipped.has(dead_letter)]
                for dead_letter in sent:
                    self._send(writer, dead_letter, refused)
                if chosen:
                    self._mark(writer, partition, handled)
                self._commit(writer, partition, handled)  # 3
                yield len(sent)

    def _send(self, writer: TransactionalWriter, dead_letter: DeadLetter, refused: list[str]) -> None:
        if dead_letter.origin is None:  # `survey` names them all
            raise ConfigError(without_origin(dead_letter.place))
        topic, partition = (self.own_topic, None) if self.own_topic else dead_letter.origin
        if not self.own_topic and not self.reads(topic):
            raise ConfigError(
                f"{dead_letter.place} came from topic {shown_topic(topic)}, which {self.connector} does not read. "
                "It and those after it are not sent"
            )
        record, headers = (
            dead_letter.record,
            dead_letter.resent_headers if self.own_topic else dead_letter.copied_headers,
        )

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                refused.append(f"{dead_letter.place} is refused by topic {shown_topic(topic)}: {error.str()}")

        fields = {"key": record.key, "partition": partition, "headers": headers or None, "on_delivery": delivered}
        try:
            writer.send(topic, record.value, **fields)
        except ProduceError as error:
            refused.append(f"{dead_letter.place} is refused by topic {shown_topic(topic)}: {error}")
            raise

    def _mark(self, writer: TransactionalWriter, partition: int, handled: Handled) -> None:
        mark = Mark.of(self.connector, handled)
        writer.send(self.browser.topic, mark.value, key=mark.key, partition=partition, headers=mark.headers)

    def _commit(self, writer: TransactionalWriter, partition: int, handled: Handled) -> None:
        offsets = [GroupOffset(self.browser.topic, partition, handled.passed, handled.metadata)]
        writer.commit(group_offsets=offsets, group_metadata=self.bookmark.metadata)


def _chunks(records: Iterable[TopicRecord], most: int) -> Iterator[list[TopicRecord]]:
    chunk: list[TopicRecord] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if len(chunk) >= most or size >= _AT_ONCE_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
