"""Sends the requests of an `Admin`, and converts what brokers answer."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError

from fencepost.kafka.errors import KafkaUnavailableError, retry, translate
from fencepost.kafka.wire.errors import AnswerError
from fencepost.kafka.wire.requests import RequestClient

T = TypeVar("T")
Place = tuple[str, int]
Refusals = dict[str, Exception]
"""The errors, by topic. A topic that is not in it was changed."""

FIRST_ANSWER_S = 2.0


class AdminRequests:
    """What all parts of an `Admin` send their requests with. Connects at the first request. Thread-safe."""

    def __init__(self, conf: Mapping[str, Any], timeout_s: float) -> None:
        self.bootstrap = str(conf.get("bootstrap.servers", ""))
        self.timeout_s = timeout_s
        self.client = RequestClient(conf, timeout_s=timeout_s)

    @property
    def timeout_ms(self) -> int:
        return int(self.timeout_s * 1000)

    def ask_repeatedly(self, doing: str, ask: Callable[[], T], timeout_s: float | None = None) -> T:
        """Ask with a growing time-out, so that a leader that stands still is not asked until the time is up.

        A broker that is only slow has half of the time to answer.
        """
        wait_s = self.timeout_s if timeout_s is None else max(timeout_s, 0.001)
        began_s = time.monotonic()

        def once() -> T:
            gone_s = time.monotonic() - began_s
            each_s = min(wait_s, max(FIRST_ANSWER_S, min(gone_s, wait_s - gone_s)))
            return self.client.run(doing, ask, each_s)

        return retry(once, wait_s)

    def change(self, request: Any, newest: int | None = None) -> Any:
        """Send a change to the controller. If it has moved, the change is sent to the next one."""
        answer = self.client.ask(request, self.client.controller(), newest=newest)
        for name in ("topics", "results", "responses"):
            for each in getattr(answer, name, None) or ():
                if each.error_code == KafkaError.NOT_CONTROLLER:
                    raise AnswerError(each.error_code, "the controller has moved")
        return answer

    def refusals_of(self, doing: str, ask: Callable[[], Iterable[Any]]) -> Refusals:
        """Send a change, and return the refusals. Raises KafkaUnavailableError."""
        return self.refused(doing, ((_name(each), each) for each in self.client.run(doing, ask)))

    def read_each(self, doing: str, ask: Callable[[], Iterable[Any]]) -> tuple[dict[str, Any], Refusals]:
        """Read something of topics until none of them is only unavailable. Returns the answers, and the refusals."""

        def once() -> tuple[dict[str, Any], Refusals]:
            answers = {_name(each): each for each in ask()}
            refused = self.refused(doing, answers.items())
            return {name: each for name, each in answers.items() if name not in refused}, refused

        return self.ask_repeatedly(doing, once)

    def refused(self, doing: str, answers: Iterable[tuple[str, Any]]) -> Refusals:
        """Return the refusals among the answers for topics. Raises KafkaUnavailableError."""
        refused: Refusals = {}
        for name, each in answers:
            if each.error_code:
                refused[name] = self.failure(each, f"{doing} {name}")
                if isinstance(refused[name], KafkaUnavailableError):
                    raise refused[name]
        return refused

    def ensure(self, answer: Any, doing: str) -> None:
        """Raise the error that a part of an answer has."""
        if answer.error_code:
            raise self.failure(answer, doing)

    def failure(self, answer: Any, doing: str) -> Exception:
        reason = getattr(answer, "error_message", None) or KafkaError(answer.error_code).str()
        return translate(KafkaError(answer.error_code, reason), doing, self.bootstrap)


def _name(answer: Any) -> str:
    return str(answer.resource_name if hasattr(answer, "resource_name") else answer.name)
