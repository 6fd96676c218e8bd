"""The strikes of a librdkafka producer.

librdkafka resends transactional requests by itself and reports that only in its log. `StrikeLog` reads that log: a line
`REQTMOUT` or `FAIL` of an established connection is a *strike* (E5).
"""

import logging
import re

log = logging.getLogger(__name__)

# A connection that was never established. The later states (APIVERSION_QUERY, SSL_HANDSHAKE, AUTH_...) do count as
# strikes, although nothing transactional was sent in them either: the text of a lost connection is the same in all
# states, and librdkafka suppresses a third line with the same text, so the next one would be missed.
_BEFORE_CONNECTED = re.compile(r"in state (INIT|TRY_CONNECT|CONNECT)\b")

_REFUSED_CONNECTION = re.compile(r"SASL authentication error|certificate verify failed")


class StrikeLog(logging.Handler):
    """Receives librdkafka's log lines and counts the strikes among them (E5).

    `has_failed_transaction` is set by the line that says that the open transaction must be aborted. `refusals` holds
    the lines about failed authentication or certificates; the client itself keeps trying and only reports a time-out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.strikes = 0
        self.last_strike: str | None = None
        self.has_failed_transaction = False
        self.refusals: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        self.has_failed_transaction |= line.startswith("TXNERR")
        is_lost = line.startswith("FAIL") and _BEFORE_CONNECTED.search(line) is None
        if is_lost or line.startswith("REQTMOUT"):
            self.strikes += 1
            self.last_strike = line
            if _REFUSED_CONNECTION.search(line) is not None:
                self.refusals.append(line.partition(": ")[2])
        log.debug("librdkafka: %s", line)
