"""The other workers of the cluster: which one leads, and which one runs what."""

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from fencepost.cluster.command import now_ms
from fencepost.cluster.info import LEADER, Place
from fencepost.cluster.leader import Leader
from fencepost.cluster.operations import REQUEST_S
from fencepost.cluster.session_key import signed_headers
from fencepost.kafka.group.group_admin import Group
from fencepost.storage.change import WorkerAssignment
from fencepost.storage.config_topic import ConfigTopic
from fencepost.storage.ids import TaskId

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
