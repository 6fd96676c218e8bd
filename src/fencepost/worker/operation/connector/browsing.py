"""Requests that show records to people: few at a time, with Kafka's errors turned into answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fencepost.api import FatalError
from fencepost.cluster.errors import BadRequestError, ConflictError, OperationError
from fencepost.config import ConfigError
from fencepost.worker.operation.request import Requests

ASK_S = 10.0
_MOST_READING = 4  # pages at the same time, as each may hold many large records
_ROOM_S = 5.0


class Room:
    """A few places. They are waited for only briefly: a Kafka that is away must not occupy REST's threads."""

    def __init__(self, pages: str) -> None:
        self._pages = pages
        self._places = threading.BoundedSemaphore(_MOST_READING)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a place. Raises ConflictError if there is none."""
        if not self._places.acquire(timeout=_ROOM_S):
            raise ConflictError(f"This worker is reading {_MOST_READING} other pages of {self._pages}: ask again")
        try:
            yield
        finally:
            self._places.release()


@contextmanager
def browsing(requests: Requests, stage: str) -> Iterator[None]:
    """Mark a stage of a request that reads records, and turn errors into answers."""
    with requests.asking(stage):
        try:
            yield
        except ConfigError as error:
            raise BadRequestError(str(error)) from error
        except FatalError as error:
            raise OperationError(str(error)) from error
