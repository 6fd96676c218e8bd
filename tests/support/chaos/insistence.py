"""Asks a cluster again for what it cannot do at the moment, as its users would."""

import threading
import time
from collections.abc import Callable

import httpx

from support.worker import Worker

Request = Callable[[Worker], httpx.Response]

_ASK_AGAIN_S = 0.1


def insisted(request: Request, via: Worker, within_s: float) -> list[str]:
    """Ask until the cluster says yes, or that it is done already; return what it said before that."""
    refusals: list[str] = []
    deadline = time.monotonic() + within_s
    while True:
        answer = request(via)
        is_done_already = (answer.request.method == "DELETE" and answer.status_code == 404) or (
            answer.status_code == 409 and "already exists" in answer.text
        )
        if answer.is_success or is_done_already:
            return refusals
        refusals.append(f"{answer.status_code} {answer.text}")
        assert answer.status_code in (409, 500, 503), refusals
        assert time.monotonic() < deadline, refusals
        threading.Event().wait(_ASK_AGAIN_S)
