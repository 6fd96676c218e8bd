"""Retries while a broker answers that it is not ready yet."""

import time
from collections.abc import Callable
from typing import TypeVar

from fencepost.kafka.errors import KafkaUnavailableError

T = TypeVar("T")

ASK_S = 30.0
"""How long a question to Kafka may take, with its repetitions."""
AGAIN_S = 0.05


def retry(ask: Callable[[], T], timeout_s: float = ASK_S, every_s: float = AGAIN_S) -> T:
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
