"""Finds out why nothing of a range arrives."""

import time
from collections.abc import Mapping
from typing import Any

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaRequestError, KafkaUnavailableError, ReadTimeoutError
from fencepost.kafka.read.consumer import UNKNOWN_PARTITION
from fencepost.kafka.read.doubt import SURE_S, Doubts
from fencepost.kafka.value.log_range import LogRange

_ASK_EVERY_S, _EDGES_S = 0.5, 2.0


class RangeSilence:
    """Finds out why nothing of a range arrives, and whether anything will."""

    def __init__(self, conf: Mapping[str, Any], wanted: LogRange, idle_s: float) -> None:
        self._wanted = wanted
        self._idle_s = idle_s
        self._admin = Admin(conf, timeout_s=_EDGES_S)
        self._moved_s, self._asked_s = time.monotonic(), float("-inf")
        self._doubts: Doubts[LogRange] = Doubts()
        self._end: int | None = None  # of the log with open transactions, as its leader last answered
        self.obstacle = ""
        """Why nothing arrives, if that is known."""

    def close(self) -> None:
        self._admin.close()

    def ended(self) -> None:
        """Record that something has arrived."""
        self._moved_s, self.obstacle, self._doubts = time.monotonic(), "", Doubts()

    @property
    def is_doubting(self) -> bool:
        """Return whether a loss is being confirmed."""
        return len(self._doubts) > 0

    def throttled(self, until_s: float) -> None:
        """Restart `idle_s` at the time when the broker's quota allows the next answer."""
        self._moved_s = max(self._moved_s, until_s)

    def is_suspicious(self, *, has_stopped: bool) -> bool:
        """Return whether to `ask`. `has_stopped`: nothing will arrive any more."""
        quiet_since_s = self._asked_s if has_stopped else max(self._moved_s, self._asked_s)
        return time.monotonic() - quiet_since_s > _ASK_EVERY_S

    def ask(self, at: int) -> tuple[int, str]:
        """Return where the log begins, as far as that is known, and what is certainly missing; "" if nothing is.

        Only the partition's leader is asked. The high watermark of a fetch is no evidence: after a failover it is lower
        than the last committed offset until enough replicas are in sync.
        """
        begin, self._end, self.obstacle, missing = at, None, "", ""
        try:
            edges = self._edges()
            if edges is None:
                missing = "there is no such topic or partition any more"
            else:
                begin, self._end = edges
            if self._end is not None and self._end < self._wanted.end:
                missing = f"the log ends at {self._end}: it was truncated, or the topic was created again"
        except KafkaUnavailableError as error:
            self.obstacle = f"the broker cannot be reached ({error})"
        except KafkaRequestError as error:
            if error.code not in UNKNOWN_PARTITION:
                raise
            self.obstacle = str(error)  # some brokers do not know the topic yet, or no longer
        self._asked_s = time.monotonic()
        seeming = [self._wanted] if missing else []
        is_sure = self._doubts.confirmed([self._wanted], seeming, self._asked_s, SURE_S)
        return begin, missing if is_sure else ""

    def _edges(self) -> tuple[int, int] | None:
        place = self._wanted.place
        found = self._admin.topics.get(place.topic)
        if found is None or place.partition >= found.partitions:
            return None
        begin = self._admin.offsets.starts([place])[place]
        return begin, self._admin.offsets.ends([place], read_committed=False)[place]

    def check(self, at: int) -> None:
        """Raise ReadTimeoutError if nothing has arrived for `idle_s`, unless a loss is being confirmed."""
        if not self.is_doubting and time.monotonic() - self._moved_s > self._idle_s:
            raise ReadTimeoutError(
                f"Nothing came for {self._idle_s:g} s while reading {self._wanted}, at offset {at}: "
                f"{self._reason()}. Option kafkaConsumer.pollTimeoutMs says how long to wait."
            )

    def _reason(self) -> str:
        if self.obstacle:
            return self.obstacle
        if self._end is not None and self._end >= self._wanted.end:
            return (
                "a transaction that wrote to it may still be open (`kafka-transactions.sh find-hanging --topic "
                f"{self._wanted.place.topic}` names one that nobody ends)"
            )
        return "the broker answers nothing"
