"""A host that several users in this process share: started for the first, ended some time after the last."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from fencepost.api.hosted_task import HostLostError
from fencepost.java.error import ConnectionLostError, HostEndedError, HostTimeoutError, KilledForAnotherError
from fencepost.java.port import HostOptions, JavaHost

log = logging.getLogger(__name__)

T = TypeVar("T")
StartHost = Callable[[HostOptions], JavaHost]

_ANSWER_S = 75.0  # a request to Kafka Connect's REST may take 90 s, and the host may have to start first


class _Running:
    """A host and its users."""

    def __init__(self, host: JavaHost) -> None:
        self.host = host
        self.users: list[str] = []
        self.was_killed = False


class Lease:
    """The use of a host by one user, from `SharedHost.take` to `end`."""

    def __init__(self, running: _Running, user: str, give_back: Callable[[_Running, str], None]) -> None:
        self._running = running
        self._user = user
        self._give_back = give_back
        self._is_over = False

    @property
    def host(self) -> JavaHost:
        return self._running.host

    @property
    def was_killed(self) -> bool:
        """Say whether `kill` ended the host, and not one of its users' plug-ins."""
        return self._running.was_killed

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
        return HostLostError(text, self.companions(), is_crash=not self.was_killed)

    def end(self) -> None:
        """Give the host back. Does nothing the second time."""
        if not self._is_over:
            self._is_over = True
            self._give_back(self._running, self._user)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    @property
    def running(self) -> JavaHost | None:
        """Return the host, if one runs."""
        running = self._running
        return None if running is None or running.host.end is not None else running.host

    def take(self, user: str) -> Lease:
        """Return the running host, or a new one. Raises JavaUnavailableError."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._running is not None and self._running.host.end is not None:
                self._running.host.close()
                self._running = None
            if self._running is None:
                self._running = _Running(self._start(self._options))
            self._running.users.append(user)
            return Lease(self._running, user, self._give_back)

    def answer(self, what: str, ask: Callable[[JavaHost], T]) -> T:
        """Return what `ask`, a few questions, returns. The host is killed if they take longer than somebody would wait.

        Nothing may run in the host but such questions. If it is killed because of somebody else's, `ask` is called once
        more, in a new host.

        Raises:
            HostTimeoutError: these questions were not answered in time.
            KilledForAnotherError: the second host was killed because of somebody else's, too.
            JavaUnavailableError: and what `ask` raises.
        """
        with suppress(KilledForAnotherError):
            return self._answer_once(what, ask)
        log.info("%s is asked again in another host: the one before was killed because of another question", what)
        return self._answer_once(what, ask)

    def _answer_once(self, what: str, ask: Callable[[JavaHost], T]) -> T:
        is_late = threading.Event()
        silence = f"{what} was not answered within {_ANSWER_S:g} s"

        def end() -> None:
            is_late.set()
            lease.kill(silence)

        with self.take(what) as lease:
            timer = threading.Timer(_ANSWER_S, end)
            timer.daemon = True
            timer.start()
            try:
                return ask(lease.host)
            except HostEndedError as error:
                if is_late.is_set():
                    raise HostTimeoutError(
                        f"{silence}, so its host (a JVM) was killed: check that what it connects to answers, then send "
                        "the request again"
                    ) from error
                if lease.was_killed:
                    raise KilledForAnotherError(
                        f"{what} was not answered, as its host (a JVM) was killed because of another question: send "
                        f"the request again. {error}"
                    ) from error
                raise
            finally:
                timer.cancel()

    def _give_back(self, running: _Running, user: str) -> None:
        with self._lock:
            if running.host.end is not None:  # those that learn of its end later still count as its users
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
