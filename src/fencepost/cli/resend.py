"""Sending the dead letters of a sink again: each once, however often it is asked for, and whatever fails meanwhile.

1. The transactional id is taken: whoever sends the same letters at this moment is fenced.
2. Only then it is read how far they were sent again.
3. Letters, and how far they are gone through, become visible in one transaction; then the next.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fencepost.cli.letter import Letter
from fencepost.cli.resend_progress import Mark, ResendProgress, progress_name
from fencepost.kafka.bookmark import Bookmark
from fencepost.kafka.browse import Range, TopicBrowser, TopicRecord
from fencepost.kafka.group_offset import GroupOffset
from fencepost.transaction import CommitUnknownError, ProduceError, TransactionalWriter

log = logging.getLogger(__name__)

_AT_ONCE = 500
_ATTEMPTS = 3


@dataclass(frozen=True)
class Resend:
    """The letters of one sink that wait to be sent again, as of the browser's making.

    `own_topic`: read by nobody but the sink, which takes them there as if they came from where they came from; empty:
    they go to the topics and partitions that they came from.
    """

    connector: str
    browser: TopicBrowser
    bookmark: Bookmark
    own_topic: str = ""

    def is_mine(self, record: TopicRecord) -> bool:
        """Say whether it is a letter of this connector, and tells where it came from."""
        letter = Letter.of(self.browser.topic, record)
        return letter.connector == self.connector and letter.origin is not None

    def waiting(self) -> dict[int, Range]:
        """Return what of the dead letter topic was not gone through yet."""
        known = ResendProgress(self.connector, self.browser, self.bookmark).read()
        return {p: (max(known.get(p, first), first), end) for p, (first, end) in self.browser.ranges.items()}

    def targets(self) -> Counter[str]:
        """Return how many letters wait, by the topic that they came from."""
        letters = (Letter.of(self.browser.topic, r) for r in self.browser.read(self.waiting()) if self.is_mine(r))
        return Counter(letter.origin[0] for letter in letters if letter.origin is not None)

    def send(self, conf: Mapping[str, Any]) -> int:
        """Send what waits; returns how many letters that were. `conf`: of a transactional producer.

        Raises what `TransactionalWriter` does, where a second and a third try have not helped; FatalError where the
        group has members.
        """
        sent, failures = 0, 0
        while True:
            self.bookmark.ensure_no_members()
            writer = TransactionalWriter(conf, progress_name(self.connector))
            try:
                writer.open()  # 1
                for count in self._transactions(writer):
                    sent, failures = sent + count, 0
                    if writer.is_struck:  # E5
                        break
                else:
                    return sent
            except (CommitUnknownError, ProduceError) as error:
                failures += 1
                if failures == _ATTEMPTS or (isinstance(error, ProduceError) and error.is_refused):
                    raise
                log.warning("dead letters of %s are sent again from where they were: %s", self.connector, error)
            finally:
                writer.abort()
                writer.close()

    def _transactions(self, writer: TransactionalWriter) -> Iterator[int]:
        """Yield how many letters each transaction held, when it is committed."""
        for partition, (first, end) in self.waiting().items():  # 2
            records = self.browser.read({partition: (first, end)})
            while chunk := list(islice(records, _AT_ONCE)):
                mine = [Letter.of(self.browser.topic, record) for record in chunk if self.is_mine(record)]
                offset = chunk[-1].offset + 1
                for letter in mine:
                    self._send(writer, letter)
                if mine:
                    self._mark(writer, partition, offset)
                self._commit(writer, partition, offset)  # 3
                yield len(mine)

    def _send(self, writer: TransactionalWriter, letter: Letter) -> None:
        assert letter.origin is not None
        topic, partition = (self.own_topic, None) if self.own_topic else letter.origin
        record, headers = letter.record, letter.resent_headers if self.own_topic else letter.copied_headers
        writer.send(topic, record.value, key=record.key, partition=partition, headers=headers or None)

    def _mark(self, writer: TransactionalWriter, partition: int, offset: int) -> None:
        mark = Mark.of(self.connector, offset)
        writer.send(self.browser.topic, mark.value, key=mark.key, partition=partition, headers=mark.headers)

    def _commit(self, writer: TransactionalWriter, partition: int, offset: int) -> None:
        offsets = [GroupOffset(self.browser.topic, partition, offset)]
        writer.commit(group_offsets=offsets, group_metadata=self.bookmark.metadata)
