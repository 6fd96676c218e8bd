"""A source that returns numbers in batches of given sizes, each batch a transaction."""

from itertools import accumulate

from fencepost.api import ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask, setting
from fencepost.record.schema import STRING


class BatchTask(SourceTask):
    """Returns the rest of the batch that its offset is in."""

    config: "BatchSource"

    def start(self) -> None:
        self.ends = list(accumulate(int(size) for size in self.config.sizes.split(",")))
        self.partition = {"numbers": "all"}
        self.next = int(self.context.offset(self.partition).get("next", 0))

    def poll(self) -> list[SourceRecord] | None:
        end = next((end for end in self.ends if end > self.next), None)
        if end is None:
            self.context.wait(0.02)
            return None
        start, self.next = self.next, end
        return [self._record(number) for number in range(start, end)]

    def _record(self, number: int) -> SourceRecord:
        return SourceRecord(
            self.partition,
            {"next": number + 1},
            self.config.topic,
            str(number).zfill(self.config.width),
            STRING,
            kafka_partition=number % 2,
        )


class BatchSource(SourceConnector):
    """Numbers in batches."""

    task = BatchTask

    topic: str = setting("topic", doc="Where records go: to its partitions 0 and 1 in turns.")
    sizes: str = setting("sizes", doc="How many numbers are in each batch.")
    width: int = setting("width", default=0, doc="How many digits a number has at least.")

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED
