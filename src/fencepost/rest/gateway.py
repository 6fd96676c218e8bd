"""The way from async handlers to the worker's synchronous operations."""

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, ParamSpec, TypeVar

import anyio.to_thread
from fastapi import Depends, Request

from fencepost.cluster.operations import ConnectOperations

P = ParamSpec("P")
T = TypeVar("T")

# A request may wait 90 s for a rebalance, and others must not wait for it.
WAITING_THREADS = 64
# Health and metrics have separate threads, because they are needed most when all others are stuck.
PROBE_THREADS = 4
# What shows the state of all connectors is looked at again and again, and must neither wait for others nor hinder them.
LOOK_THREADS = 16
# What is in this worker's memory already, and takes long only because there is much of it.
SHOW_THREADS = 8
# What other workers ask for such a look: if it waited for looks here, two workers could wait for each other.
PEER_THREADS = 16
# Those who follow a log wait for half a minute at a time.
FOLLOW_THREADS = 32
# A page of dead letters may take ten seconds. The worker reads fewer, and refuses the others after a while.
LETTER_THREADS = 8


class ExitError(Exception):
    """A plug-in raised something that is not an Exception, as sys.exit() does. It would end the server's loop."""


class Gateway:
    """Runs operations for handlers: `local` ones directly, all others on threads."""

    def __init__(self, operations: ConnectOperations) -> None:
        self.local = operations.local
        self.operations = operations
        self._limiters: dict[str, anyio.CapacityLimiter] = {}  # made on the event loop

    async def run(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation that may wait for the cluster."""
        return await _in_thread(partial(operation, *args, **kwargs), self._limiter("waiting", WAITING_THREADS))

    async def probe(self, operation: Callable[[], T]) -> T:
        """Run an operation that must answer even if every other request is stuck."""
        return await _in_thread(operation, self._limiter("probes", PROBE_THREADS))

    async def look(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation that only reads, but may ask other workers and brokers, for a few seconds at most."""
        return await _in_thread(partial(operation, *args, **kwargs), self._limiter("looks", LOOK_THREADS))

    async def show(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation that waits for nothing: neither for the cluster nor for looks that wait for brokers."""
        return await _in_thread(partial(operation, *args, **kwargs), self._limiter("shows", SHOW_THREADS))

    async def answer_peer(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation that another worker asks for, and that answers from this worker's memory."""
        return await _in_thread(partial(operation, *args, **kwargs), self._limiter("peers", PEER_THREADS))

    @property
    def has_room_to_follow(self) -> bool:
        """Return whether one more request may wait for what will be logged."""
        return self._limiter("follows", FOLLOW_THREADS).available_tokens >= 1

    async def follow(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation that waits for what will be logged."""
        return await _in_thread(partial(operation, *args, **kwargs), self._limiter("follows", FOLLOW_THREADS))

    async def read_letters(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation that reads dead letters: few at a time, and while they wait, nobody else does."""
        return await _in_thread(partial(operation, *args, **kwargs), self._limiter("letters", LETTER_THREADS))

    async def run_round(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a round of fencing, which waits for nothing except possibly an unreachable cluster.

        The number of threads is not limited, because each worker (its signature has been verified) requests only one
        round per connector at a time.
        """
        return await _in_thread(partial(operation, *args, **kwargs), self._limiter("rounds", math.inf))

    def _limiter(self, name: str, threads: float) -> anyio.CapacityLimiter:
        if name not in self._limiters:
            self._limiters[name] = anyio.CapacityLimiter(threads)
        return self._limiters[name]


async def _in_thread(operation: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
    return await anyio.to_thread.run_sync(_without_exits, operation, abandon_on_cancel=True, limiter=limiter)


def _without_exits(operation: Callable[[], T]) -> T:
    try:
        return operation()
    except Exception:
        raise
    except BaseException as error:
        raise ExitError(f"{type(error).__name__}: {error}") from error


async def _gateway(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


Worker = Annotated[Gateway, Depends(_gateway)]
