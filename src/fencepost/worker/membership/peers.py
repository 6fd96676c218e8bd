"""The other workers of the cluster: which one leads, which one runs what, and which are gone.

Killed workers are noticed at once instead of after the session time-out: their address refuses connections. That says
that no process listens there, in nearly all cases because the process is gone. A worker that is cut off, or hangs,
refuses nothing. If the conclusion is wrong (a proxy answers for the address, or only REST has ended), no record is lost
or duplicated: the worker is removed from its group, as its coordinator does after the session time-out. Its tasks are
fenced before they move (E2), and it joins again (docs/decisions/0027).
"""

import logging
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fencepost.cluster.command import now_ms
from fencepost.cluster.info import LEADER, Place
from fencepost.cluster.leader import Leader
from fencepost.cluster.operations import REQUEST_S
from fencepost.cluster.session_key import signed_headers
from fencepost.kafka.group.group_admin import Group, GroupMember
from fencepost.storage.change import TaskId, WorkerAssignment
from fencepost.storage.config_topic import ConfigTopic

if TYPE_CHECKING:
    import ssl

    import httpx


log = logging.getLogger(__name__)


class LateClient:
    """Makes its client when it is first asked for: a lone worker needs neither it nor the library. Thread-safe."""

    def __init__(self, tls: "ssl.SSLContext | None" = None) -> None:
        self._tls = tls
        self._lock = threading.Lock()
        self._made: httpx.Client | None = None

    def get(self) -> "httpx.Client":
        with self._lock:
            if self._made is None:
                import httpx

                self._made = httpx.Client(
                    timeout=httpx.Timeout(REQUEST_S, connect=2.0),
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
                    trust_env=False,
                    verify=self._tls or True,
                    headers={"user-agent": "fencepost"},
                )
            return self._made


def begun(act: "Callable[[], httpx.Response]") -> "Future[httpx.Response]":
    """Call `act` in a daemon thread, and return its outcome."""
    done: Future[httpx.Response] = Future()

    def run() -> None:
        try:
            done.set_result(act())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, name="request-to-worker", daemon=True).start()
    return done


class Peers:
    """Answers from the current state of the group and the config topic. Any thread."""

    def __init__(
        self,
        url: str,
        group: Callable[[], Group],
        topic: ConfigTopic,
        leader: Leader,
    ) -> None:
        """`group` asks Kafka for the group, and raises any error that prevents an answer."""
        self.url = url
        self._group = group
        self._topic = topic
        self._leader = leader

    def group(self) -> Group:
        """Return the group as its coordinator knows it. Raises any error that prevents an answer."""
        return self._group()

    def roster(self) -> list[str]:
        """Return the URLs of the group's members."""
        return [member.client_id for member in self._group().members]

    def leader_url(self) -> str | None:
        """Return the leader's address; None during a rebalance, or if Kafka does not answer."""
        if self._leader.is_leading:
            return self.url
        try:
            members = self._group().members
        except Exception as error:
            log.warning("the leader cannot be determined: %s", error)
            return None
        return next((m.client_id for m in members if m.topic_partitions), None)

    def incarnation(self, url: str) -> str | None:
        """Return the incarnation of the process at `url`."""
        return self._topic.snapshot.incarnations.get(url)

    def signed(self, url: str, algorithm: str, method: str, path: str, body: bytes) -> dict[str, str] | None:
        """Return the headers with which the worker at `url` accepts a request once.

        None if its incarnation, or the key that signs requests between workers, has not been read yet.
        """
        audience, key = self.incarnation(url), self._topic.snapshot.session_key
        if audience is None or key is None:
            return None
        nonce = uuid.uuid4().hex
        return signed_headers(key, algorithm, method, path, body, audience=audience, time_ms=now_ms(), nonce=nonce)

    def locate(self, place: Place) -> str | None:
        """Return the address of the worker that is responsible for `place`; None if there is none."""
        if place == LEADER:
            return self.leader_url()
        assignment = self._topic.snapshot.assignment
        workers = assignment.workers if assignment is not None else ()
        return next((worker.url for worker in workers if _has(worker, place)), None)


def _has(worker: WorkerAssignment, place: Place) -> bool:
    if place.connector is None:
        return False
    if place.task is None:
        return place.connector in worker.connectors
    return TaskId(place.connector, place.task) in worker.tasks


_GIVEN_UP_S = 10.0


class Questions:
    """Sends signed requests that only read (KIP-507). Any thread.

    A worker that does not answer in time is not waited for again until its request has failed, 10 seconds later: it
    may be stopped, and each request would take as long as is allowed.
    """

    def __init__(self, peers: Peers, algorithm: str, http: LateClient) -> None:
        self._peers = peers
        self._algorithm = algorithm
        self._http = http
        self._lock = threading.Lock()
        self._late: dict[str, Future[httpx.Response]] = {}

    def ask(self, urls: Collection[str], path: str, within_s: float) -> Mapping[str, bytes]:
        """Return the bodies of the answers to `GET path` by worker, without those that fail or come later than this."""
        asked = {url: sending for url in urls if (sending := self._begin(url, path)) is not None}
        done, late = wait(asked.values(), within_s)
        with self._lock:
            known = self._late | {url: sending for url, sending in asked.items() if sending in late}
            self._late = {url: sending for url, sending in known.items() if not sending.done()}  # some have left
        return {url: body for url, each in asked.items() if each in done and (body := _body(url, each)) is not None}

    def _begin(self, url: str, path: str) -> "Future[httpx.Response] | None":
        with self._lock:
            late = self._late.get(url)
            if late is not None and not late.done():
                return None
            self._late.pop(url, None)
        headers = self._peers.signed(url, self._algorithm, "GET", path, b"")
        if headers is None:
            return None
        client = self._http.get()
        return begun(lambda: client.get(url.rstrip("/") + path, headers=headers, timeout=_GIVEN_UP_S))


def _body(url: str, sending: "Future[httpx.Response]") -> bytes | None:
    error = sending.exception()
    if error is not None:
        log.debug("%s does not answer: %r", url, error)
        return None
    answer = sending.result()
    if answer.status_code != 200:
        log.debug("%s answers %d: %s", url, answer.status_code, answer.text)
        return None
    return answer.content


_EVERY_S = (0.2, 0.5)
_PER_WORKER_S = 0.02
_AGAIN_S = 0.2
_CONNECT_S = 0.5
_GROUP_S = 1.0
_ASKED_TOGETHER = 10  # times in a second, by all workers: each answer names all members
_AT_ONCE = 8
_IN_A_ROW = 3
_RESET = struct.pack("ii", 1, 0)
_PORTS = {"http": 80, "https": 443}


class ConnectOutcome(Enum):
    """The outcome of a connection to a worker's address."""

    ANSWERED = "answered"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass
class _Seen:
    has_answered: bool = False
    refusals: int = 0
    was_evicted: bool = False


@dataclass
class Refusals:
    """Decides which workers are gone, by incarnation, which is never used twice."""

    _seen: dict[str, _Seen] = field(default_factory=dict)

    def judge(self, incarnation: str, look: ConnectOutcome) -> bool:
        """Record the outcome for a worker that the group still has; return whether its process is gone.

        It is gone if its address has answered before and has now refused three times in a row. An address that has
        never worked from here proves nothing.
        """
        seen = self._seen.setdefault(incarnation, _Seen())
        seen.has_answered |= look is ConnectOutcome.ANSWERED
        seen.refusals = seen.refusals + 1 if look is ConnectOutcome.REFUSED else 0
        return seen.has_answered and not seen.was_evicted and seen.refusals >= _IN_A_ROW

    def evicted(self, incarnation: str) -> None:
        """Record that a worker was removed from the group. If it comes back, its address is no longer trusted."""
        self._seen[incarnation].was_evicted = True

    def keep_only(self, incarnations: Iterable[str]) -> None:
        """Forget the others, except evicted ones, which may come back."""
        kept = set(incarnations)
        self._seen = {name: seen for name, seen in self._seen.items() if name in kept or seen.was_evicted}


def look_at(url: str, timeout_s: float = _CONNECT_S) -> ConnectOutcome:
    """Connect to an address, close the connection again, and return the outcome."""
    address = urlsplit(url)
    try:
        port = address.port or _PORTS[address.scheme]
        with socket.create_connection((address.hostname or "", port), timeout_s, all_errors=True) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # leaves no TIME_WAIT on either side
    except ExceptionGroup as errors:  # one for each address that the name has
        is_refused = all(isinstance(error, ConnectionRefusedError) for error in errors.exceptions)
        return ConnectOutcome.REFUSED if is_refused else ConnectOutcome.UNKNOWN
    except (OSError, ValueError, KeyError):
        return ConnectOutcome.UNKNOWN
    return ConnectOutcome.ANSWERED


def pause_s(looked_at: int) -> float:
    """Return the time until the next look at so many workers; a leader of many looks less often, to save its time."""
    soonest_s, latest_s = _EVERY_S
    return min(max(soonest_s, looked_at * _PER_WORKER_S), latest_s)


def ask_again_s(members: int) -> float:
    """Return how long a worker that does not lead goes by an answer about the group; the leader asks each second.

    An answer names all members. If each of n workers asked each second, the coordinator would send n * n entries.
    """
    return max(_GROUP_S, members / _ASKED_TOGETHER)


class PeerWatch:
    """Checks other workers several times a second, in separate threads.

    The leader checks all other workers, and these check the leader.
    """

    def __init__(
        self,
        peers: Peers,
        is_leading: Callable[[], bool],
        evict: Callable[[GroupMember], None],
        stopping: threading.Event,
        look: Callable[[str], ConnectOutcome] = look_at,
    ) -> None:
        """`evict(member)` removes a member whose process is gone from the group; after an error it is called again.

        It is not called once this worker is `stopping`.
        """
        self._peers = peers
        self._is_leading = is_leading
        self._evict = evict
        self._look_at = look
        self._refusals = Refusals()
        self._members: tuple[GroupMember, ...] = ()
        self._ask_at_s = float("-inf")
        self._stopping = stopping
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="peer-look")
        self._thread = threading.Thread(target=self._run, name="peer-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self) -> bool:
        """Check once all workers that this one has to check. Returns whether any refused the connection.

        If evictions fail, the first error is raised after all of them were tried.
        """
        members = self._to_look_at()
        named = {m.client_id: self._peers.incarnation(m.client_id) for m in self._members}
        self._refusals.keep_only(name for name in named.values() if name is not None)
        looks = list(self._pool.map(self._look_at, [m.client_id for m in members]))
        is_refused = ConnectOutcome.REFUSED in looks
        if is_refused:  # another one may lead by now
            self._ask_at_s = min(self._ask_at_s, time.monotonic() + _GROUP_S)
        failed: list[Exception] = []
        now: dict[str, GroupMember] | None = None
        for member, look in zip(members, looks, strict=True):
            incarnation = named[member.client_id]
            if incarnation is not None and self._refusals.judge(incarnation, look) and not self._stopping.is_set():
                log.warning(
                    "%s refuses connections: its worker is gone, and is removed from the group", member.client_id
                )
                self._ask_at_s = float("-inf")
                try:
                    if now is None:  # a worker that started again since the last answer has another member id
                        now = {each.client_id: each for each in self._peers.group().members}
                    if member.client_id in now:
                        self._evict(now[member.client_id])
                        self._refusals.evicted(incarnation)
                except Exception as error:  # continue with the others
                    failed.append(error)
        if failed:
            raise failed[0]
        return is_refused

    def _to_look_at(self) -> list[GroupMember]:
        now_s, leads = time.monotonic(), self._is_leading()
        if now_s > self._ask_at_s:
            self._members = self._peers.group().members
            self._ask_at_s = now_s + ask_again_s(len(self._members))
        if leads:
            self._ask_at_s = min(self._ask_at_s, now_s + _GROUP_S)
        return [m for m in self._members if m.client_id != self._peers.url and (leads or m.topic_partitions)]

    def _run(self) -> None:
        wait_s = _AGAIN_S
        while not self._stopping.wait(wait_s):
            wait_s = pause_s(len(self._members) if self._is_leading() else 1)
            try:
                if self.look():
                    wait_s = _AGAIN_S
            except Exception as error:
                log.debug("the other workers cannot be checked: %s", error)
