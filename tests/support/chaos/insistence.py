"""Asks a cluster again for what it cannot do at the moment, as its users would."""

import threading
import time
from collections.abc import Callable

import httpx

from fencepost.cluster.errors import WriteFailedError
from support.worker import Worker

Request = Callable[[Worker], httpx.Response]

TIMED_OUT = "Request timed out"
_ASK_AGAIN_S = 0.1


def insisted(request: Request, via: Worker, within_s: float, *, is_hurt: bool = False) -> list[str]:
    """Ask until the cluster says yes, or that it is done already; return what it said before that, which is printed.

    It may ask for patience: a rebalance, a worker that is not ready, a request that took too long; and, where its
    leader `is_hurt`, a write that failed. Raises AssertionError for any other refusal.
    """
    refusals: list[str] = []
    deadline = time.monotonic() + within_s
    while True:
        answer = request(via)
        is_done_already = (answer.request.method == "DELETE" and answer.status_code == 404) or (
            answer.status_code == 409 and "already exists" in answer.text
        )
        if answer.is_success or is_done_already:
            if refusals:
                asked = f"{answer.request.method} {answer.request.url.path}"
                print(f"  {asked} was refused {len(refusals)} times: {sorted(set(refusals))}", flush=True)
            return refusals
        refusals.append(f"{answer.status_code} {answer.text}")
        assert _is_passing(answer, is_hurt=is_hurt), refusals
        assert time.monotonic() < deadline, refusals
        threading.Event().wait(_ASK_AGAIN_S)


def _is_passing(answer: httpx.Response, *, is_hurt: bool) -> bool:
    if answer.status_code == 500:
        return TIMED_OUT in answer.text or (is_hurt and WriteFailedError.TEXT in answer.text)
    return answer.status_code in (409, 503)
