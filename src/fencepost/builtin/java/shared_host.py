"""A host that several users in this process share: started for the first, ended some time after the last."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TypeVar

from fencepost.api import RetriableError
from fencepost.builtin.java.error import ConnectionLostError, HostEndedError, HostTimeoutError
from fencepost.builtin.java.port import HostOptions
from fencepost.hook.hosted_task import HostLostError

if TYPE_CHECKING:
    from fencepost.builtin.java.client.host import JavaHost

log = logging.getLogger(__name__)

T = TypeVar("T")
StartHost = Callable[[HostOptions], "JavaHost"]

_ANSWER_S = 75.0  # a request to Kafka Connect's REST may take 90 s, and the host may have to start first
_ALL_S = 85.0  # for an answer with all that precedes it, if it is asked alone
_LEAST_S = 15.0  # with less time than this, nothing is asked alone any more
_MOST_ALONE = 2
"""How many questions of a host that ended are asked alone at the same time, each in a JVM of its own: the host may have
ended for want of memory, and one that hangs does not hold up all others. Of hosts apart, as many start at once."""
_starting_apart = threading.Semaphore(_MOST_ALONE)


class _Running:
    """A host and its users."""

    def __init__(self, host: "JavaHost") -> None:
        self.host = host
        self.users: list[str] = []
        self.count = 0  # of all users so far
        self.was_killed = False


class Lease:
    """The use of a host by one user, from `SharedHost.take` to `end`."""

    def __init__(self, running: _Running, user: str, give_back: Callable[[_Running, str], None]) -> None:
        self._running = running
        self._user = user
        self._give_back = give_back
        self._is_over = False

    @property
    def host(self) -> "JavaHost":
        return self._running.host

    @property
    def was_killed(self) -> bool:
        """Say whether `kill` ended the host, or somebody else's signal, and not one of its users' plug-ins."""
        return self._running.was_killed or self._running.host.is_killed_by_others

    @property
    def may_have_ended_it(self) -> bool:
        """Say whether this user may be why the host ended.

        A kill by the system, most often for want of memory, says nothing about who used the host, unless it had one
        user only.
        """
        return not (self._running.was_killed or (self._running.host.is_killed_by_others and self.is_shared))

    @property
    def is_shared(self) -> bool:
        """Say whether the host has had another user, who may have left a thread there."""
        return self._running.count > 1

    def companions(self) -> frozenset[str]:
        """Return who uses the host, and whoever used it when it ended."""
        return frozenset({*self._running.users, self._user})

    def kill(self, why: str) -> None:
        """End the host at once, for all of its users. Any thread."""
        self._running.was_killed = True
        self._running.host.kill(why)

    def lost(self, error: HostEndedError) -> HostLostError:
        """Return the error that says so to the runtime of a task, whom this lease is for."""
        if isinstance(error, ConnectionLostError):
            return HostLostError(str(error), frozenset({self._user}))
        text = f"the host (a JVM) of its slot ended: {error}"
        return HostLostError(text, self.companions(), is_crash=not self._running.was_killed)

    def end(self) -> None:
        """Give the host back. Does nothing the second time."""
        if not self._is_over:
            self._is_over = True
            self._give_back(self._running, self._user)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


class SharedHost:
    """Thread-safe. A host that has ended is replaced for the next user."""

    def __init__(self, start: StartHost, options: HostOptions, linger_s: float) -> None:
        """`linger_s`: for how long a host without users is kept for the next one."""
        self._start = start
        self._options = options
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._timer: threading.Timer | None = None
        self._alone = threading.Semaphore(_MOST_ALONE)
        self._apart: list[JavaHost] = []  # each has one user

    @property
    def running(self) -> "list[JavaHost]":
        """Return the host, if one runs, and those that have one user each."""
        shared = self._running
        found = [*([] if shared is None else [shared.host]), *self._apart]
        return [host for host in found if host.end is None]

    def take(self, user: str) -> Lease:
        """Return the running host, or a new one. Raises JavaUnavailableError."""
        _ = self.running  # it may take seconds to learn how it has ended: nobody else waits for that, and it is kept
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._running is not None and self._running.host.end is not None:
                self._running.host.close()
                self._running = None
            if self._running is None:
                self._running = _Running(self._start(self._options))
            return self._leased(self._running, user, self._give_back)

    def take_apart(self, user: str) -> Lease:
        """Return a new host, which nobody else gets, and which ends with the lease. Raises JavaUnavailableError.

        Few start at once: all connectors that were starting when a host ended ask for one at the same moment.
        """
        with _starting_apart:
            running = _Running(self._start(self._options))
        self._apart.append(running.host)

        def close(*_: object) -> None:
            self._apart.remove(running.host)
            running.host.close()

        return self._leased(running, user, close)

    @staticmethod
    def _leased(running: _Running, user: str, give_back: Callable[[_Running, str], None]) -> Lease:
        running.count += 1
        running.users.append(user)
        return Lease(running, user, give_back)

    def answer(self, what: str, ask: Callable[["JavaHost"], T]) -> T:
        """Return what `ask`, a few questions, returns. The host is killed if they take longer than somebody would wait.

        Nothing may run in the host but such questions. If it ends, and may have ended because of somebody else's, `ask`
        is called once more, in a host that nobody else uses. So only who ends a host gets its end as the answer, and
        ends two hosts at most.

        Raises:
            HostTimeoutError: these questions were not answered in time.
            HostEndedError: these questions have ended their host.
            RetriableError: there was no time to ask in a host of its own.
            JavaUnavailableError: and what `ask` raises.
        """
        until_s = time.monotonic() + _ALL_S
        with self.take(what) as lease:
            try:
                return _answered(what, ask, lease, _ANSWER_S)
            except HostTimeoutError:
                raise
            except HostEndedError as error:
                if not lease.is_shared:
                    raise
                log.info("%s is asked again, alone, as others have used its host, too: %s", what, error)
        return self.answer_alone(what, ask, until_s)

    def answer_alone(self, what: str, ask: Callable[["JavaHost"], T], until_s: float | None = None) -> T:
        """Return what `ask` returns in a new host that nobody else uses. Raises as `answer` does.

        A turn, the start of the host and the answer share the time until `until_s` by the monotonic clock. `ask` is
        not called if little of it is left, as whoever waits would be told of the end of the time, and then it happened.
        """
        until_s = time.monotonic() + _ALL_S if until_s is None else until_s
        wait_s = until_s - _LEAST_S - time.monotonic()
        if wait_s < 0 or not self._alone.acquire(timeout=wait_s):
            raise _no_time(what)
        try:
            with self.take_apart(what) as lease:
                left_s = until_s - time.monotonic()
                if left_s < _LEAST_S:
                    raise _no_time(what)
                return _answered(what, ask, lease, min(_ANSWER_S, left_s))
        finally:
            self._alone.release()

    def _give_back(self, running: _Running, user: str) -> None:
        has_ended = running.host.end is not None  # as in `take`
        with self._lock:
            if has_ended:  # those that learn of its end later still count as its users
                running.host.close()  # a crash leaves its sockets and their directory behind
                return
            running.users.remove(user)
            if running is not self._running or running.users:
                return
            self._timer = threading.Timer(self._linger_s, self._close_unused, (running,))
            self._timer.daemon = True
            self._timer.start()

    def _close_unused(self, running: _Running) -> None:
        with self._lock:
            if running.users or running is not self._running:
                return
            self._running = None
        running.host.close()
        log.debug("%s has ended: nobody uses it", self._options.label)


def _no_time(what: str) -> RetriableError:
    text = f"{what} was not answered: there was no time left to ask it in a host (a JVM) of its own"
    return RetriableError(f"{text}. Send the request again")


def _answered(what: str, ask: Callable[["JavaHost"], T], lease: Lease, within_s: float) -> T:
    """Return what `ask` returns. The host is killed after a time; who is to blame for another end is not looked at."""
    is_late = threading.Event()
    silence = f"{what} was not answered within {within_s:.3g} s"

    def end() -> None:
        is_late.set()
        lease.kill(silence)

    timer = threading.Timer(within_s, end)
    timer.daemon = True
    timer.start()
    try:
        return ask(lease.host)
    except HostEndedError as error:
        if not is_late.is_set():
            raise
        raise HostTimeoutError(
            f"{silence}, so its host (a JVM) was killed: check that the system it connects to, such as its database, "
            "can be reached, then send the request again"
        ) from error
    finally:
        timer.cancel()
