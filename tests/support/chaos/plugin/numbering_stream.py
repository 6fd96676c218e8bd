"""A stream that writes for each record where it was read: key and value are its partition and its number."""

from fencepost.api import SinkBatch, SinkRecord, StreamConnector, StreamTask, setting


class NumberingTask(StreamTask):
    """Keeps the order of each partition: its records share a key."""

    config: "NumberingStream"

    def process(self, batch: SinkBatch) -> list[SinkRecord]:
        return [
            record.to(
                self.config.target,
                key=f"{record.topic}-{record.kafka_partition}".encode(),
                value=next(header.value for header in record.headers if header.key == "n"),
                headers=(),
            )
            for record in batch
        ]


class NumberingStream(StreamConnector):
    """Reads what has its number in the header `n`."""

    task = NumberingTask

    target: str = setting("target", doc="Where records go.")
