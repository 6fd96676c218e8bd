"""Nobody looks for strikes, so that a producer goes on after its requests were sent again (E5)."""

from logging import LogRecord

from fencepost.kafka.produce.librdkafka_producer import StrikeLog
from planted import replace


def emit(self: StrikeLog, record: LogRecord) -> None:
    self.has_failed_transaction |= record.getMessage().startswith("TXNERR")


replace(StrikeLog, "emit", emit)
