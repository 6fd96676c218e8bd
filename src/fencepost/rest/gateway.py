"""The way from async handlers to the worker's synchronous operations."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, ParamSpec, TypeVar

import anyio.to_thread
from fastapi import Depends, Request

from fencepost.cluster.operations import ConnectOperations, LocalOperations

P = ParamSpec("P")
T = TypeVar("T")

WAITING_THREADS = 64
PROBE_THREADS = 4
LOOK_THREADS = 16
MEMORY_THREADS = 16
FOLLOW_THREADS = 32
READ_THREADS = 8


class ExitError(Exception):
    """A plug-in raised something that is not an Exception, as sys.exit() does. It would end the server's loop."""


class Pool:
    """Runs operations on threads of its own, as many at once as it has."""

    def __init__(self, threads: float) -> None:
        self._threads = threads

    @cached_property
    def _limiter(self) -> anyio.CapacityLimiter:  # made on the event loop
        return anyio.CapacityLimiter(self._threads)

    @property
    def has_room(self) -> bool:
        """Return whether one more operation would begin at once."""
        return self._limiter.available_tokens >= 1

    async def __call__(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the operation returns."""

        def without_exits() -> T:
            try:
                return operation(*args, **kwargs)
            except Exception:
                raise
            except BaseException as error:
                raise ExitError(f"{type(error).__name__}: {error}") from error

        return await anyio.to_thread.run_sync(without_exits, abandon_on_cancel=True, limiter=self._limiter)


class Gateway:
    """Runs operations for handlers: `local` ones directly, all others on threads.

    A slow operation must not block a fast one, so each kind of waiting has a pool. None can be merged with another:

    - `run`: may wait for the cluster, 90 s for a rebalance.
    - `probe`: health and metrics, which are needed most when all other threads are stuck.
    - `look`: only reads, but may ask other workers and brokers, for a few seconds. Pages ask for it again and again.
    - `recall`: waits for nothing, as all of it is in this worker's memory. Other workers ask for this when they look:
      if it waited for looks here, two workers could wait for each other.
    - `follow`: waits for what will be logged, for half a minute at a time.
    - `read`: reads dead letters or records of a topic, for ten seconds or more. The worker reads fewer at a time than
      there are threads, and refuses the others after a while.
    - `run_round`: a round of fencing, which only waits for a cluster that cannot be reached. Its threads are not
      limited, because each worker, whose signature was verified, asks for one round of a connector at a time.
    """

    def __init__(self, operations: ConnectOperations) -> None:
        self.operations = operations
        self.run, self.probe, self.look = Pool(WAITING_THREADS), Pool(PROBE_THREADS), Pool(LOOK_THREADS)
        self.recall, self.follow, self.read = Pool(MEMORY_THREADS), Pool(FOLLOW_THREADS), Pool(READ_THREADS)
        self.run_round = Pool(math.inf)

    @property
    def local(self) -> LocalOperations:
        """Return what the worker answers from memory, at once, on the event loop."""
        return self.operations.local


async def _gateway(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


Worker = Annotated[Gateway, Depends(_gateway)]
