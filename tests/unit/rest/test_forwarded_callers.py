"""Requests that one worker sends to another for somebody whom it has identified: signed, and for that process, once."""

import asyncio
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import httpx
import pytest

from fencepost.cluster.errors import ElsewhereError, NotReadyError
from fencepost.cluster.info import LEADER
from fencepost.cluster.session_key import (
    ALGORITHM,
    NONCE,
    SIGNATURE,
    TIME,
    RequestVerifier,
    body_signature,
    for_caller,
    signed_headers,
)
from fencepost.rest import create_app
from fencepost.rest.access.access import Access
from fencepost.rest.access.need import CALLER, encoded
from fencepost.rest.access.principal import Grant, Principal, Role, Rules
from fencepost.rest.app import RestOptions
from fencepost.rest.server import Endpoint, RestServer
from fencepost.storage.change import SessionKey

from .fake import FakeConnector, FakeWorker
from .test_need import Anybody

KEY, OLD_KEY = SessionKey(b"k" * 32, "HmacSHA256", 1), SessionKey(b"o" * 32, "HmacSHA256", 0)
SEED = 33
RULES = Rules((Grant("user:alice", Role.EDIT, "file"), Grant("group:ops", Role.OPERATE, "file")))
ALICE = {"authorization": "Name alice"}
SOURCE = {"connector.class": "FileStreamSource"}


class Node(FakeWorker):
    """A worker that signs and verifies as a real one does. `leader`: who has to answer, if not this one."""

    def __init__(self, *, rules: Rules = RULES) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.incarnation = uuid.uuid4().hex
        self.leader: Node | None = None
        self.key: SessionKey | None = KEY
        self.newer_key: SessionKey | None = None
        self.accept_body_only(False)
        self.seen: list[Mapping[str, str]] = []
        self.connectors["file"] = FakeConnector({**SOURCE, "name": "file"})
        access = Access({"name": Anybody()}, rules=lambda: rules)
        self.app = create_app(self.operations, options=RestOptions(access=access))
        self.server = RestServer(Endpoint(self._watched(self.app), "127.0.0.1", 0))
        self.server.start()
        self.rest = httpx.Client(base_url=self.url, timeout=60)

    def accept_body_only(self, accepts: bool) -> None:
        """Say whether requests may be signed over their body alone, as Kafka Connect signs them."""
        self.verifier = RequestVerifier(
            self.incarnation, ("HmacSHA256",), lambda: self.now_ms, accepts_body_only=accepts
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/"

    def _watched(self, app: Any) -> Any:
        async def watch(scope: Any, receive: Any, send: Any) -> None:
            self.seen.append({k.decode(): v.decode() for k, v in scope["headers"]})
            await app(scope, receive, send)

        return watch

    def locate(self, place: Any) -> str | None:
        return (self.leader or self).url

    def wait(self) -> None:
        super().wait()
        if self.leader is not None:
            raise ElsewhereError(LEADER, self.leader.url)

    def catch_up(self) -> None:
        super().catch_up()
        self.key, self.newer_key = self.newer_key or self.key, None

    def sign_caller(self, url: str, caller: str, method: str, path: str, body: bytes) -> Mapping[str, str]:
        if self.key is None:
            self.catch_up()
            raise NotReadyError("not yet")
        assert self.leader is not None
        return self.signed(self.leader, for_caller(method, caller), path, body, self.key)

    def signed(self, to: "Node", method: str, path: str, body: bytes, key: SessionKey = KEY) -> dict[str, str]:
        nonce = uuid.uuid4().hex
        return signed_headers(
            key, "HmacSHA256", method, path, body, audience=to.incarnation, time_ms=to.now_ms, nonce=nonce
        )

    def verify_caller(
        self, caller: str, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> bool:
        return self.verifier.verify(self.key, method, path, body, headers, caller=caller)

    def verify(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bool:
        return self.verifier.verify(self.key, method, path, body, headers)


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    """A leader, and a follower that forwards to it."""
    leader, follower = Node(), Node(rules=Rules((Grant("anyone", Role.ADMIN),)))
    follower.leader = leader
    yield leader, follower
    for node in (leader, follower):
        node.rest.close()
        node.server.stop(0)


def test_the_leader_knows_the_caller_and_applies_its_own_roles(nodes: tuple[Node, Node]) -> None:
    leader, follower = nodes
    assert follower.rest.put("/connectors/file/stop", headers=ALICE).status_code == 204
    assert leader.connectors["file"].state == "STOPPED"
    refused = follower.rest.delete("/connectors/file", headers={"authorization": "Name bob"})
    assert (refused.status_code, refused.json()["message"]) == (403, "bob needs the role edit for this connector")
    assert "file" in leader.connectors


def test_the_password_stays_with_the_worker_that_was_asked(nodes: tuple[Node, Node]) -> None:
    leader, follower = nodes
    odd = "/connectors/file/restart?includeTasks=true&x=a%20b[1]&y=%7E"
    assert follower.rest.post(odd, headers=ALICE).status_code == 202
    assert follower.rest.put("/connectors/file/config", json={**SOURCE, "file": "ä"}, headers=ALICE).status_code == 200
    assert len(leader.seen) == 2
    assert all("authorization" not in headers for headers in leader.seen)


def test_groups_are_passed_on(nodes: tuple[Node, Node]) -> None:
    leader, follower = nodes
    stated = encoded(Principal("carol ü", frozenset({"ops", "b"})))
    path = "/connectors/file/pause"
    headers = {CALLER: stated, **follower.signed(leader, for_caller("PUT", stated), path, b"")}
    assert leader.rest.put(path, headers=headers).status_code == 202


def test_a_renewed_key_is_read_and_the_request_repeated(nodes: tuple[Node, Node]) -> None:
    leader, follower = nodes
    follower.key, follower.newer_key = OLD_KEY, KEY
    assert follower.rest.put("/connectors/file/stop", headers=ALICE).status_code == 204
    follower.key, follower.newer_key = None, KEY
    assert follower.rest.delete("/connectors/file", headers=ALICE).status_code == 204
    assert leader.connectors == {}


class Call(NamedTuple):
    """A request that one worker sends to another for somebody."""

    method: str
    target: str
    body: bytes
    headers: dict[str, str]

    def with_headers(self, **changed: str) -> "Call":
        return self._replace(headers={**self.headers, **{k.replace("_", "-"): v for k, v in changed.items()}})

    def without(self, *names: str) -> "Call":
        return self._replace(headers={k: v for k, v in self.headers.items() if k not in names})


GOOD, ADMIN = encoded(Principal("alice")), encoded(Principal("alice", frozenset({"ops", "root"})))
PATH, BODY = "/connectors/file/config", b'{"connector.class":"FileStreamSource","file":"forged"}'


def good_call(sender: Node, to: Node, key: SessionKey = KEY, method: str = for_caller("PUT", GOOD)) -> Call:
    return Call("PUT", PATH, BODY, {CALLER: GOOD, **sender.signed(to, method, PATH, BODY, key)})


def late(call: Call, leader: Node, ms: int) -> Call:
    leader.now_ms += ms
    return call


Forge = Callable[[Call, Node, Node, random.Random], Call]
FORGERIES: list[Forge] = [
    lambda call, *_: call.with_headers(**{CALLER: ADMIN}),
    lambda call, *_: call._replace(body=BODY.replace(b"forged", b"FORGED")),
    lambda call, *_: call._replace(target="/connectors/file/offsets", method="DELETE"),
    lambda call, *_: call._replace(target=PATH + "?forward=true"),
    lambda call, leader, sender, rng: call.with_headers(**_changed(call, rng.choice([TIME, NONCE, SIGNATURE]))),
    lambda call, leader, sender, rng: call.without(rng.choice([TIME, NONCE, SIGNATURE, ALGORITHM])),
    lambda call, leader, sender, rng: good_call(sender, sender),  # for another process
    lambda call, leader, sender, rng: good_call(sender, leader, OLD_KEY),
    lambda call, leader, sender, rng: good_call(sender, leader, method="PUT"),  # as a request between workers
    lambda call, *_: call.without(TIME, NONCE).with_headers(**{SIGNATURE: body_signature(KEY, "HmacSHA256", BODY)}),
    lambda call, leader, sender, rng: late(call, leader, rng.choice([60_000, -60_000])),
    lambda call, *_: call.without(CALLER),
]


def _changed(call: Call, name: str) -> dict[str, str]:
    return {name: call.headers[name] + "1"}


async def status_of(app: Any, call: Call) -> int:
    """Return the answer of an application, without a server or a client, which would take most of the time."""
    path, _, query = call.target.partition("?")
    headers = {**call.headers, "content-type": "application/json"}
    scope = {
        "type": "http", "http_version": "1.1", "method": call.method, "scheme": "http", "client": ("test", 1),
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "server": ("test", 2),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "state": {},
    }  # fmt: skip
    found: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": call.body, "more_body": False}

    async def send(message: Any) -> None:
        found.extend([message["status"]] if message["type"] == "http.response.start" else [])

    await app(scope, receive, send)
    return found[0]


@pytest.mark.parametrize("accepts_body_only", [False, True])
def test_forged_and_replayed_calls_change_nothing(nodes: tuple[Node, Node], accepts_body_only: bool) -> None:
    """Five thousand of them: a good request with one thing changed, or sent again, or to another process."""
    leader, sender = nodes
    leader.accept_body_only(accepts_body_only)
    rng, accepted = random.Random(SEED), good_call(sender, leader)
    forgeries = [*FORGERIES, lambda *_: accepted]

    async def sent() -> None:
        assert await status_of(leader.app, accepted) == 200
        before = list(leader.calls)
        for number in range(2_500):
            forge = forgeries[number % len(forgeries)]
            status = await status_of(leader.app, forge(good_call(sender, leader), leader, sender, rng))
            leader.now_ms = 1_000_000
            assert status in (400, 401, 403), number % len(forgeries)
        assert leader.calls == before

    asyncio.run(sent())


def test_a_request_signed_for_a_caller_is_no_request_between_workers(nodes: tuple[Node, Node]) -> None:
    leader, follower = nodes
    good, path = encoded(Principal("alice")), "/connectors/file/fence"
    headers = {CALLER: good, **follower.signed(leader, for_caller("PUT", good), path, b"")}
    assert leader.rest.put(path, headers=headers).status_code == 403
    assert leader.rest.put(path, headers=follower.signed(leader, "PUT", path, b"")).status_code == 204
