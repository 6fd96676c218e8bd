"""A source that defines its own transactions: numbered records, some transactions of which it gives up.

A line of numbers is a source partition. As many records of it exist as its file has bytes, so that a test makes more by
making the file longer. Tasks share the lines; one that defines its own transactions has one line.
"""

import json
import os

from fencepost.api import ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask, setting
from fencepost.record.schema import STRING

TRANSACTION = 40
MOST_POLLED = 25  # so that transactions end inside batches, and reach over them


def is_last(number: int) -> bool:
    """Say whether a transaction ends after this record."""
    return (number + 1) % TRANSACTION == 0


def is_given_up(number: int) -> bool:
    """Say whether this record's transaction is aborted; always the same ones."""
    return number // TRANSACTION % 9 == 4


def key_of(line: int, number: int) -> str:
    return f"{line}-{number % 7}"


class NumberedTask(SourceTask):
    """Counts up to what the files of its lines allow, one line after the other."""

    config: "NumberedSource"

    def start(self) -> None:
        self.lines = [int(line) for line in self.config.lines]
        self.next = {line: int(self.context.offset({"task": line}).get("next", 0)) for line in self.lines}
        self.polls = 0

    def poll(self) -> list[SourceRecord] | None:
        for _ in self.lines:
            self.polls += 1
            records = self._poll_line(self.lines[self.polls % len(self.lines)])
            if records:
                return records
        self.context.wait(0.1)
        return None

    def _poll_line(self, line: int) -> list[SourceRecord]:
        start = self.next[line]
        self.next[line] = stop = max(start, min(self._available(line), start + MOST_POLLED))
        records = [self._record(line, number) for number in range(start, stop)]
        for number, record in zip(range(start, stop), records, strict=True):
            self._maybe_end_transaction(number, record)
        return records

    def _available(self, line: int) -> int:
        try:
            return os.stat(f"{self.config.file}.{line}").st_size
        except FileNotFoundError:
            return 0

    def _record(self, line: int, number: int) -> SourceRecord:
        key = key_of(line, number)
        payload = {"task": line, "number": number, "topic": self.config.topic, "key": key}
        offset = {"next": number + 1}
        return SourceRecord({"task": line}, offset, self.config.topic, json.dumps(payload), STRING, key, STRING)

    def _maybe_end_transaction(self, number: int, record: SourceRecord) -> None:
        transaction = self.context.transaction
        if transaction is None or not is_last(number):
            return
        if is_given_up(number):
            transaction.abort_transaction(record)
        else:
            transaction.commit_transaction(record)


class NumberedSource(SourceConnector):
    """Numbered records in transactions of its own."""

    task = NumberedTask

    topic: str = setting("topic", doc="Where records go.")
    file: str = setting("file", doc="The files whose sizes say how many records there are, without `.<line>`.")
    count: int = setting("lines", default=0, doc="How many lines there are; 0: one for each task.")
    lines: list[str] = setting("task.lines", default=[], doc="Set by the connector.")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        own = super().task_configs(1)[0]
        lines = [str(line) for line in range(self.count or max_tasks)]
        return [{**own, "task.lines": ",".join(lines[n::max_tasks])} for n in range(min(max_tasks, len(lines)))]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self) -> bool:
        return True
