import contextlib
import socket
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Self

import httpx
import pytest

from fencepost.cluster.figures import ConnectorFigures
from fencepost.cluster.topic_records import LetterPage, LetterQuery
from fencepost.rest import Endpoint, RestServer, create_app
from fencepost.rest.gateway import LOOK_THREADS, READ_THREADS, WAITING_THREADS
from fencepost.testing import eventually
from support.timing import fastest_s

from .fake import SIGNATURE, FakeDeadLetters, FakeWorker


@pytest.fixture
def server(worker: FakeWorker) -> Iterator[RestServer]:
    server = RestServer(Endpoint(create_app(worker.operations), "127.0.0.1", 0))
    server.start()
    yield server
    server.stop(timeout_s=1)


def _get(server: RestServer, path: str, method: str = "GET") -> httpx.Response:
    return httpx.request(method, f"http://127.0.0.1:{server.port}{path}", timeout=100)


def test_a_started_server_answers(server: RestServer) -> None:
    assert _get(server, "/connectors").json() == ["file"]


def test_encoded_names_survive_the_real_server(server: RestServer) -> None:
    answer = _get(server, "/connectors/a%2Fb%20c/status")
    assert answer.json()["message"] == "No status found for connector a/b c"


def test_a_kept_connection_is_answered_without_the_delay_of_small_packets(server: RestServer) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=100) as client:

        def took_s() -> float:
            return client.get("/connectors/file/status").elapsed.total_seconds()

        # Nagle and delayed acknowledgements make each 0.04; a busy machine does so to most.
        assert fastest_s(took_s, below_s=0.03, tries=1_000) < 0.03


def test_head_is_get_without_body(server: RestServer) -> None:
    answer = _get(server, "/connectors", "HEAD")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_port_in_use_is_an_error_of_start(server: RestServer, worker: FakeWorker) -> None:
    second = RestServer(Endpoint(create_app(worker.operations), "127.0.0.1", server.port))
    with pytest.raises(OSError, match="in use"):
        second.start()


def test_a_stopped_server_takes_no_more_connections(server: RestServer) -> None:
    port = server.port
    server.stop(timeout_s=1)
    server.stop(timeout_s=1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


class Crowd:
    """Requests that are held in the worker until they are released."""

    def __init__(self, server: RestServer, worker: FakeWorker, size: int) -> None:
        self._release = threading.Event()
        self._lock = threading.Lock()
        self.waiting = self.through = 0
        worker.before_wait = self._hold
        self._askers = [threading.Thread(target=self._ask, args=(server,)) for _ in range(size)]

    def __enter__(self) -> Self:
        for asker in self._askers:
            asker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._release.set()
        for asker in self._askers:
            asker.join()

    def _ask(self, server: RestServer) -> None:
        with contextlib.suppress(httpx.TransportError):  # a stopped server hangs up
            _get(server, "/connectors/file")

    def _hold(self) -> None:
        with self._lock:
            self.waiting += 1
        assert self._release.wait(100)
        self.through += 1


def test_reads_and_health_are_answered_while_every_thread_waits(server: RestServer, worker: FakeWorker) -> None:
    with Crowd(server, worker, WAITING_THREADS + 4) as crowd:
        eventually(lambda: crowd.waiting == WAITING_THREADS, within_s=60)
        assert _get(server, "/health").status_code == 200
        assert _get(server, "/connectors/file/status").status_code == 200


def test_fencing_rounds_of_an_absent_cluster_hold_up_no_other_request(
    server: RestServer, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other worker asks for the rounds of all its connectors, and waits for as long as a round takes."""
    release, waiting = threading.Event(), []

    def hold(name: str) -> None:
        waiting.append(name)
        assert release.wait(100)

    def ask() -> None:
        with contextlib.suppress(httpx.TransportError):
            client.put("/connectors/file/fence", headers={SIGNATURE: "PUT /connectors/file/fence 0"})

    monkeypatch.setattr(worker, "fence", hold)
    limits = httpx.Limits(max_connections=None)
    client = httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=100, limits=limits)
    askers = [threading.Thread(target=ask, daemon=True) for _ in range(WAITING_THREADS + 4)]
    for asker in askers:
        asker.start()
    try:
        eventually(lambda: len(waiting) >= WAITING_THREADS, within_s=60)
        assert _get(server, "/connectors/file").status_code == 200
    finally:
        release.set()
        for asker in askers:
            asker.join()
        client.close()


def test_pages_of_dead_letters_that_take_long_hold_up_no_other_request(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody could pause a connector while somebody looks at a topic that is slow to read."""
    release, reading = threading.Event(), []

    def hold(self: FakeDeadLetters, name: str, query: LetterQuery) -> LetterPage:
        reading.append(name)
        assert release.wait(100)
        return LetterPage("dead", [])

    def ask() -> None:
        with contextlib.suppress(httpx.TransportError):
            client.get("/connectors/file/dead-letters")

    monkeypatch.setattr(FakeDeadLetters, "read", hold)
    limits = httpx.Limits(max_connections=None)
    client = httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=100, limits=limits)
    askers = [threading.Thread(target=ask, daemon=True) for _ in range(WAITING_THREADS + 4)]
    for asker in askers:
        asker.start()
    try:
        eventually(lambda: len(reading) >= READ_THREADS, within_s=60)
        assert _get(server, "/connectors/file").status_code == 200
        assert len(reading) == READ_THREADS
    finally:
        release.set()
        for asker in askers:
            asker.join()
        client.close()


def test_slow_figures_hold_up_neither_lists_nor_calls_between_workers(
    server: RestServer, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that are asked by many at once would wait for each other."""
    release, waiting = threading.Event(), []

    def hold(connectors: Collection[str]) -> Mapping[str, ConnectorFigures]:
        waiting.append(connectors)
        assert release.wait(100)
        return {}

    def ask() -> None:
        with contextlib.suppress(httpx.TransportError):
            _get(server, "/connectors/file/figures")

    monkeypatch.setattr(worker, "figures", hold)
    askers = [threading.Thread(target=ask) for _ in range(LOOK_THREADS)]
    for asker in askers:
        asker.start()
    try:
        eventually(lambda: len(waiting) == LOOK_THREADS, within_s=60)
        assert list(_get(server, "/connectors?expand=status&expand=info").json()) == ["file"]
        headers = {SIGNATURE: "GET /internal/logs?connector=file 0"}
        url = f"http://127.0.0.1:{server.port}/internal/logs?connector=file"
        assert httpx.get(url, headers=headers, timeout=100).status_code == 200
    finally:
        release.set()
        for asker in askers:
            asker.join()


def test_stop_does_not_wait_for_a_request_that_never_ends(server: RestServer, worker: FakeWorker) -> None:
    with Crowd(server, worker, 1) as crowd:
        eventually(lambda: crowd.waiting == 1, within_s=60)
        server.stop(timeout_s=0)
        assert crowd.through == 0
