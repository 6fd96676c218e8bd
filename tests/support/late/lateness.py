"""Withholds a request and delivers it late, at a chosen point of a later transaction of the same producer."""

import time
from collections import Counter

from support.chaos.wire import owner
from support.late.attempt import Attempt
from support.proxy import Action, ApiKey, KafkaProxy, Request

_ANSWER_S = 5.0
_OF_TRANSACTIONS = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)


class Lateness:
    """Does to a proxy's traffic what an attempt says."""

    def __init__(self, proxy: KafkaProxy, attempt: Attempt, transactional_ids: tuple[str, ...]) -> None:
        self._attempt = attempt
        self._ids = transactional_ids
        self._id = transactional_ids[attempt.lane]
        self._seen: Counter[int] = Counter()
        self._has_struck = False
        self._ended = 0
        self._gate = proxy.on(None, Action.HOLD, matches=self._is_gate)  # first: it watches what passes
        self._fault = proxy.on(attempt.request, attempt.action, matches=self._is_victim)
        self._passed = proxy.on(None, Action.PASS, count=1_000_000, matches=self._is_of_later)
        self.was_late = False
        self._held_s = 0.0
        self._error: AssertionError | None = None

    @property
    def was_met(self) -> bool:
        return self._fault.met > 0

    def maybe_release(self) -> bool:
        """Once the later transaction has come to the chosen point: deliver the request, then let that one go on.

        What came before the point has been answered by then: the broker has it. Returns whether something is wrong;
        `deliver` then raises it.
        """
        if self._gate.is_holding and not self.was_late and self._is_answered():
            self.was_late = True
            try:
                self._fault.release()
                self._gate.release()
            except AssertionError as error:  # the broker did not answer
                self._error = error
        return self._error is not None

    def deliver(self) -> None:
        """Deliver the request, if it is still withheld, and wait for the broker's answer."""
        if self._error is not None:
            raise self._error
        self._fault.release()

    def _is_answered(self) -> bool:
        """Whether the broker has what came before the point, or will not answer it any more."""
        self._held_s = self._held_s or time.monotonic()
        return self._passed.answered == self._passed.met or time.monotonic() - self._held_s > _ANSWER_S

    def _is_mine(self, request: Request) -> bool:
        return request.api_key in _OF_TRANSACTIONS and owner(request, self._ids) == self._id

    def _is_victim(self, request: Request) -> bool:
        if not self._is_mine(request):
            return False
        self._seen[request.api_key] += 1
        self._has_struck = self._seen[request.api_key] == self._attempt.nth
        if self._has_struck:
            self._seen.clear()
        return self._has_struck

    def _is_of_later(self, request: Request) -> bool:
        return bool(self._ended) and not self.was_late and self._is_mine(request)

    def _is_gate(self, request: Request) -> bool:
        """Count what follows the fault: the end of its transaction, then the requests of a later one."""
        if not self._has_struck or not self._is_mine(request):
            return False
        if not self._ended:
            self._ended += request.api_key == ApiKey.END_TXN
            return False
        self._seen[request.api_key] += 1
        kind, number = self._attempt.before
        return request.api_key == kind and self._seen[kind] == number
