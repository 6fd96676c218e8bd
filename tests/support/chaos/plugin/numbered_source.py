"""A source that defines its own transactions: numbered records, some transactions of which it gives up.

As many records exist as its file of that task has bytes, so that a test makes more by making the file longer.
"""

import json
import os

from fencepost.api import ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask, setting
from fencepost.record.schema import STRING

TRANSACTION = 40
MOST_POLLED = 25  # so that transactions end inside batches, and reach over them


def is_last(number: int) -> bool:
    """Say whether a transaction ends behind this record."""
    return (number + 1) % TRANSACTION == 0


def is_given_up(number: int) -> bool:
    """Say whether this record's transaction is aborted; always the same ones."""
    return number // TRANSACTION % 9 == 4


def key_of(task: int, number: int) -> str:
    return f"{task}-{number % 7}"


class NumberedTask(SourceTask):
    """Counts up to what its file allows."""

    config: "NumberedSource"

    def start(self) -> None:
        self.partition = {"task": self.config.number}
        self.number = int(self.context.offset(self.partition).get("next", 0))
        self.file = f"{self.config.file}.{self.config.number}"

    def poll(self) -> list[SourceRecord] | None:
        stop = min(self._available(), self.number + MOST_POLLED)
        if stop <= self.number:
            self.context.wait(0.02)
            return None
        records = [self._record(number) for number in range(self.number, stop)]
        for number, record in zip(range(self.number, stop), records, strict=True):
            self._maybe_end_transaction(number, record)
        self.number = stop
        return records

    def _available(self) -> int:
        try:
            return os.stat(self.file).st_size
        except FileNotFoundError:
            return 0

    def _record(self, number: int) -> SourceRecord:
        key = key_of(self.config.number, number)
        payload = {"task": self.config.number, "number": number, "topic": self.config.topic, "key": key}
        offset = {"next": number + 1}
        return SourceRecord(self.partition, offset, self.config.topic, json.dumps(payload), STRING, key, STRING)

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
    file: str = setting("file", doc="The files whose sizes say how many records there are, without `.<task>`.")
    number: int = setting("task.number", default=0, doc="Set by the connector.")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        own = super().task_configs(1)[0]
        return [{**own, "task.number": str(n)} for n in range(max_tasks)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def can_define_transaction_boundaries(self) -> bool:
        return True
