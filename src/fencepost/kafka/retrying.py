"""Retries while a broker answers that it is not ready yet."""

import time
from collections.abc import Callable
from typing import TypeVar

from fencepost.kafka.errors import KafkaUnavailableError

T = TypeVar("T")


def retry(ask: Callable[[], T], timeout_s: float, every_s: float) -> T:
    """Call `ask` until it succeeds or the time is up. A broker that is not yet leader or coordinator answers at once.

    Raises the last KafkaUnavailableError.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except KafkaUnavailableError:
            if time.monotonic() + every_s > deadline_s:
                raise
            time.sleep(every_s)
