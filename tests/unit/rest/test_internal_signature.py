"""Requests between workers, over HTTP: those that are not signed for this worker, now and once, do nothing."""

import asyncio
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest
from starlette.testclient import TestClient
from starlette.types import Message

from fencepost.cluster.session_key import (
    ALGORITHM,
    NONCE,
    SIGNATURE,
    TIME,
    WINDOW_MS,
    RequestVerifier,
    body_signature,
    signed_headers,
)
from fencepost.rest import create_app
from fencepost.storage.change import SessionKey

from .fake import FakeConnector, FakeWorker

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
ME = "this-incarnation"
TASKS = b'[{"a":"b"}]'
SEED = 618


class Leader(FakeWorker):
    """Checks signatures as a worker does, and counts what it was made to do."""

    def __init__(self, *, accepts_body_only: bool = False) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.key: SessionKey | None = KEY
        self.verifier = RequestVerifier(
            ME, ("HmacSHA256", "HmacSHA512"), lambda: self.now_ms, accepts_body_only=accepts_body_only
        )
        self.connectors["file"] = FakeConnector({"connector.class": "FileStreamSource"})

    def verify(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bool:
        return self.verifier.verify(self.key, method, path, body, headers)

    def fence(self, name: str) -> None:
        super().fence(name)
        self.calls.append(("fence", name))


class Call(NamedTuple):
    """An internal request as a worker sends it."""

    method: str = "PUT"
    path: str = "/connectors/file/fence"
    body: bytes = b""
    headers: Mapping[str, str] = {}

    def signed(self, leader: Leader, *, key: SessionKey = KEY, audience: str = ME, ago_ms: int = 0) -> "Call":
        headers = signed_headers(
            key,
            "HmacSHA256",
            self.method,
            self.path,
            self.body,
            audience=audience,
            time_ms=leader.now_ms - ago_ms,
            nonce=uuid.uuid4().hex,
        )
        return self._replace(headers={**headers, "content-type": "application/json"})

    def sent(self, client: TestClient) -> int:
        return client.request(self.method, self.path, content=self.body, headers=dict(self.headers)).status_code


PUT_TASKS = Call("POST", "/connectors/file/tasks", TASKS)
FENCE = Call()


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def client(leader: Leader) -> Iterator[TestClient]:
    with TestClient(create_app(leader.operations), base_url="http://localhost:8083") as client:
        yield client


def test_request_signed_for_this_worker_is_carried_out_once(leader: Leader, client: TestClient) -> None:
    call = PUT_TASKS.signed(leader)
    assert (call.sent(client), call.sent(client)) == (204, 403)
    assert FENCE.signed(leader).sent(client) == 204
    assert [name for name, *_ in leader.calls] == ["task_configs", "fence"]


def test_signed_request_is_refused_before_the_session_key_is_known(leader: Leader, client: TestClient) -> None:
    leader.key = None
    assert FENCE.signed(leader).sent(client) == 503
    assert leader.calls == []


def test_a_request_is_refused_once_the_key_was_renewed(leader: Leader, client: TestClient) -> None:
    old = FENCE.signed(leader)
    leader.key = SessionKey(b"n" * 32, "HmacSHA256", 1)
    assert old.sent(client) == 403
    assert FENCE.signed(leader, key=leader.key).sent(client) == 204


@pytest.mark.parametrize("ago_ms", [WINDOW_MS + 1, -WINDOW_MS - 1])
def test_request_signed_outside_the_time_window_is_refused(leader: Leader, client: TestClient, ago_ms: int) -> None:
    assert FENCE.signed(leader, ago_ms=ago_ms).sent(client) == 403
    assert leader.calls == []


def test_replayed_request_is_refused_within_the_whole_time_window(leader: Leader, client: TestClient) -> None:
    call = FENCE.signed(leader, ago_ms=-WINDOW_MS)
    assert call.sent(client) == 204
    for _ in range(8):
        leader.now_ms += WINDOW_MS // 4
        FENCE.signed(leader).sent(client)
        assert call.sent(client) == 403


def test_expired_nonces_are_forgotten(leader: Leader, client: TestClient) -> None:
    for _ in range(50):
        assert FENCE.signed(leader).sent(client) == 204
        leader.now_ms += WINDOW_MS // 2
    assert len(leader.verifier._seen) <= 6


def test_body_signature_of_kafka_connect_is_accepted_only_when_configured(leader: Leader, client: TestClient) -> None:
    headers = {
        SIGNATURE: body_signature(KEY, "HmacSHA256", TASKS),
        ALGORITHM: "HmacSHA256",
        "content-type": "application/json",
    }
    call = PUT_TASKS._replace(headers=headers)
    assert call.sent(client) == 403
    other = Leader(accepts_body_only=True)
    there = TestClient(create_app(other.operations), base_url="http://localhost:8083")
    assert call.sent(there) == 204
    assert call._replace(body=b"[]").sent(there) == 403
    wide = PUT_TASKS.signed(other)
    assert (wide.sent(there), wide.sent(there)) == (204, 403)
    bare = {name: value for name, value in wide.headers.items() if name not in (TIME, NONCE)}
    assert wide._replace(headers=bare).sent(there) == 403


def test_signature_over_the_body_alone_counts_for_two_requests_only() -> None:
    """Over an empty body it is the same for all paths: whoever has seen one could read logs with it."""
    other = Leader(accepts_body_only=True)
    there = TestClient(create_app(other.operations), base_url="http://localhost:8083")
    headers = {SIGNATURE: body_signature(KEY, "HmacSHA256", b""), ALGORITHM: "HmacSHA256"}
    assert Call(headers=headers).sent(there) == 204
    assert Call("GET", "/internal/logs?connector=file", headers=headers).sent(there) == 403
    assert Call("GET", "/internal/figures", headers=headers).sent(there) == 403


@pytest.mark.parametrize(
    ("changed", "status"),
    [({SIGNATURE: ""}, 400), ({SIGNATURE: "x"}, 403), ({TIME: "1"}, 403), ({NONCE: ""}, 403), ({ALGORITHM: "x"}, 400)],
)
def test_body_is_not_read_before_its_signature_is_verified(
    leader: Leader, changed: dict[str, str], status: int
) -> None:
    right = PUT_TASKS.signed(leader)
    wrong = right._replace(headers={**right.headers, **changed})
    assert status_and_reads(leader, wrong) == (status, 0)
    assert status_and_reads(leader, right) == (204, 1)


def status_and_reads(leader: Leader, call: Call) -> tuple[int, int]:
    """Send a call without a server; return its status, and how often its body was asked for."""
    headers = [(name.encode(), value.encode()) for name, value in {**call.headers, "host": "localhost"}.items()]
    scope = {
        "type": "http", "method": call.method, "path": call.path, "raw_path": call.path.encode(), "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("localhost", 8083), "scheme": "http",
        "http_version": "1.1",
    }  # fmt: skip
    statuses: list[int] = []
    reads = 0

    async def receive() -> Message:
        nonlocal reads
        reads += 1
        return {"type": "http.request", "body": call.body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    asyncio.run(create_app(leader.operations)(scope, receive, send))
    return statuses[0], reads


def _wrong(random_: random.Random, leader: Leader, good: Call) -> Iterator[tuple[Call, int]]:
    """Every way to be wrong, with the status that it is answered with."""
    right = good.signed(leader)
    fields = dict(right.headers)
    yield right._replace(headers={"content-type": "application/json"}), 400
    yield right._replace(headers={k: v for k, v in fields.items() if k != ALGORITHM}), 400
    yield right._replace(headers={**fields, ALGORITHM: random_.choice(["HmacMD5", "none", "HmacSHA384"])}), 400
    yield right._replace(headers={**fields, ALGORITHM: "HmacSHA512"}), 403
    yield right._replace(headers={**fields, SIGNATURE: body_signature(KEY, "HmacSHA256", good.body)}), 403
    yield right._replace(headers={**fields, SIGNATURE: random_.randbytes(32).hex()}), 403
    yield right._replace(headers={**fields, NONCE: uuid.uuid4().hex}), 403
    yield right._replace(headers={**fields, NONCE: ""}), 403
    yield right._replace(headers={**fields, TIME: str(leader.now_ms + random_.randint(1, 1000))}), 403
    yield right._replace(headers={**fields, TIME: "soon"}), 403
    yield right._replace(body=good.body + b" "), 403
    yield right._replace(path=right.path.replace("file", "other")), 403
    yield right._replace(path=right.path + "?forward=true"), 403
    yield good.signed(leader, key=SessionKey(random_.randbytes(32), "HmacSHA256", 0)), 403
    yield good.signed(leader, audience="another-incarnation"), 403
    yield good.signed(leader, ago_ms=WINDOW_MS + random_.randint(1, 10**6)), 403
    yield good.signed(leader, ago_ms=-WINDOW_MS - random_.randint(1, 10**6)), 403
    twin = good._replace(path="/connectors/file/tasks" if good.method == "PUT" else "/connectors/file/fence")
    yield twin._replace(method="POST" if good.method == "PUT" else "PUT", headers=fields), 403


def test_thousand_forged_replayed_stale_and_unsigned_calls_are_refused(leader: Leader, client: TestClient) -> None:
    print(f"seed {SEED}")
    random_ = random.Random(SEED)
    count, began = 0, time.monotonic()
    while count < 1000:
        for good in (PUT_TASKS, FENCE):
            replayed = good.signed(leader)
            assert replayed.sent(client) == 204
            done = len(leader.calls)
            for call, status in [*_wrong(random_, leader, good), (replayed, 403), (replayed, 403)]:
                assert call.sent(client) == status, call
                count += 1
            assert len(leader.calls) == done
    print(f"{count} calls in {time.monotonic() - began:.1f} s")
