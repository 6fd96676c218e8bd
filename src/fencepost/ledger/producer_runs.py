"""Finds the run of a record by its producer's sequences, which begin with 0 again after 2^31 records."""

from bisect import bisect_right
from collections.abc import Sequence

from fencepost.kafka.codec.encode_header import SEQUENCES
from fencepost.ledger.run_check import RunCheck


class ProducerRuns:
    """The runs of one incarnation of a producer in one partition."""

    def __init__(self, checks: Sequence[RunCheck]) -> None:
        self._laps: list[list[RunCheck]] = []  # each with growing sequences; the last run of one may begin another lap
        last = SEQUENCES
        for check in sorted(checks, key=_number):
            if check.run.sequence <= last:
                self._laps.append([])
            last = check.run.sequence
            self._laps[-1].append(check)

    def find(self, sequence: int, offset: int) -> tuple[RunCheck, int] | None:
        """Return the run of a record, and its index there."""
        for lap in reversed(self._laps):
            check = lap[bisect_right(lap, sequence, key=_sequence) - 1]  # the last one, if the first begins later
            index = (sequence - check.run.sequence) % SEQUENCES
            if index < check.run.digest.records and (len(self._laps) == 1 or lap[0].run.after < offset):
                return check, index
        return None

    def until_next(self, sequence: int) -> int:
        """Return how many sequences there are before the next run; at least one."""
        ahead = [(each.run.sequence - sequence) % SEQUENCES for lap in self._laps for each in _around(lap, sequence)]
        return min(filter(None, ahead), default=SEQUENCES)

    def have_before(self, sequence: int) -> bool:
        """Return whether a run began before this sequence."""
        return len(self._laps) > 1 or self._laps[0][0].run.sequence < sequence


def _around(lap: Sequence[RunCheck], sequence: int) -> Sequence[RunCheck]:
    """Return the first run of a lap, and the first one after a sequence."""
    at = bisect_right(lap, sequence, key=_sequence)
    return [lap[0], *lap[at : at + 1]]


def _sequence(check: RunCheck) -> int:
    return check.run.sequence


def _number(check: RunCheck) -> int:
    return check.entry.number
