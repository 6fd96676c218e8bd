"""Requests that another worker has to answer, over real sockets between servers in this process."""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from fencepost.cluster.errors import ElsewhereError, NotLeadingError, RequestTimeoutError
from fencepost.cluster.info import LEADER
from fencepost.rest import create_app, forwarding
from fencepost.rest.app import RestOptions
from fencepost.rest.response import parse_header_rules
from fencepost.rest.server import Endpoint, RestServer
from fencepost.testing import eventually

from .fake import FakeWorker

SOURCE = {"connector.class": "FileStreamSource"}


class Node(FakeWorker):
    """A worker of a cluster whose leader is known: `leader_url`; None is this one itself."""

    def __init__(self) -> None:
        super().__init__()
        self.leader_url: str | None = None
        self.wait_for = threading.Event()
        self.wait_for.set()
        self.seen: list[tuple[str, Mapping[str, str]]] = []
        self.server = RestServer(Endpoint(self._watched(create_app(self.operations)), "127.0.0.1", 0))
        self.server.start()
        self.rest = httpx.Client(base_url=self.url, timeout=100)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/"

    def _watched(self, app: Any) -> Any:
        async def watch(scope: Any, receive: Any, send: Any) -> None:
            headers = {k.decode(): v.decode() for k, v in scope["headers"]}
            target = f"{scope['method']} {scope['raw_path'].decode()}?{scope['query_string'].decode()}"
            self.seen.append((target, headers))
            await app(scope, receive, send)

        return watch

    def locate(self, place: Any) -> str | None:
        return self.leader_url or self.url

    def wait(self) -> None:
        super().wait()
        self.wait_for.wait(60)
        if self.leader_url is not None:
            raise ElsewhereError(LEADER, self.leader_url)


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    """Three workers; the first leads, and the others know it."""
    made = [Node() for _ in range(3)]
    for node in made[1:]:
        node.leader_url = made[0].url
    yield made
    for node in made:
        node.server.stop(0)


def creation(name: str) -> dict[str, Any]:
    return {"name": name, "config": SOURCE}


def dead_url() -> str:
    return "http://127.0.0.1:1/"


def test_answer_of_the_leader_is_passed_back_unchanged(nodes: list[Node]) -> None:
    leader, follower, _ = nodes
    created = follower.rest.post("/connectors", json=creation("a/b"))
    assert (created.status_code, created.headers["location"]) == (201, "/connectors/a%2Fb")
    assert created.json()["name"] == "a/b"
    again = follower.rest.post("/connectors", json=creation("a/b"))
    assert (again.status_code, again.json()["message"]) == (409, "Connector a/b already exists")
    refused = follower.rest.post("/connectors", json={"name": "c", "config": {}})
    assert (refused.status_code, refused.json()["error_code"]) == (400, 400)
    gone = follower.rest.delete("/connectors/a%2Fb")
    assert (gone.status_code, gone.content) == (204, b"")
    assert leader.connectors == {}
    assert ("catch_up",) in follower.calls


def test_path_query_and_some_headers_are_passed_on(nodes: list[Node]) -> None:
    leader, follower, _ = nodes
    leader.connectors["a/b"] = FakeWorkerConnector()
    sent = {"Authorization": "Basic abc", "Cookie": "secret", "X-Other": "1"}
    answer = follower.rest.post("/connectors/a%2Fb/restart?includeTasks=True", headers=sent)
    assert answer.status_code == 202
    target, headers = leader.seen[-1]
    assert target == "POST /connectors/a%2Fb/restart?includeTasks=True&forward=true"
    assert headers["authorization"] == "Basic abc"
    assert headers["user-agent"] == "kafka-connect"
    assert not {"cookie", "x-other"} & headers.keys()


def test_a_request_takes_two_hops_at_most(nodes: list[Node]) -> None:
    leader, second, first = nodes
    leader.connectors["c"] = FakeWorkerConnector()
    first.leader_url = second.url
    assert first.rest.put("/connectors/c/stop").status_code == 204
    assert second.seen[-1][0].endswith("?forward=true")
    assert leader.seen[-1][0].endswith("?forward=false")
    third = second.rest.delete("/connectors/c?forward=false")
    text = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    assert (third.status_code, third.json()["message"]) == (409, text)
    assert "c" in leader.connectors


def test_former_leader_does_not_forward_a_request_that_must_not_run_twice(nodes: list[Node]) -> None:
    """Who asked may have asked the next leader by then."""
    leader, past, first = nodes
    first.leader_url = past.url
    asked = past.rest.post("/connectors?forward=true", json=creation("c"))
    assert (asked.status_code, leader.seen) == (409, [])
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(first.rest.post("/connectors", json=creation("c"))))
    asking.start()
    eventually(lambda: len(past.seen) > 2, within_s=60)
    first.leader_url = leader.url
    asking.join(60)
    assert [answer.status_code for answer in answers] == [201]
    assert [target for target, _ in leader.seen] == ["POST /connectors?forward=true"]


def test_abandoned_request_is_not_forwarded(nodes: list[Node]) -> None:
    """A leader that stood still has been left for another one, to which the request was made again."""
    leader, paused, _ = nodes
    leader.connectors["c"] = FakeWorkerConnector()
    goes_on = threading.Event()
    paused.wait_for = goes_on
    with pytest.raises(httpx.ReadTimeout):
        paused.rest.put("/connectors/c/stop", params={"forward": "true"}, timeout=0.3)
    goes_on.set()
    assert paused.rest.put("/connectors/c/resume", params={"forward": "true"}).status_code == 202
    assert [target.partition("?")[0] for target, _ in leader.seen] == ["PUT /connectors/c/resume"]


def test_workers_that_name_each_other_answer_409_once_the_time_is_up(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, a, b = nodes
    a.leader_url, b.leader_url = b.url, a.url
    monkeypatch.setattr(forwarding, "REQUEST_S", 0.0)
    answer = a.rest.delete("/connectors/c")
    assert answer.status_code == 409
    hops = [target.partition("?")[2] for target, _ in (*a.seen, *b.seen)]
    assert sorted(hops) == ["", "forward=false", "forward=true"]


@pytest.mark.parametrize("reason", ["nobody listens", "not leading yet"])
def test_forwarding_waits_while_the_leader_is_unreachable_or_unknown(nodes: list[Node], reason: str) -> None:
    leader, follower, other = nodes
    if reason == "nobody listens":
        follower.leader_url = dead_url()
    else:
        follower.leader_url = other.url
        other.leader_url = None
        other.failure = NotLeadingError()
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(follower.rest.post("/connectors", json=creation("c"))))
    asking.start()
    eventually(lambda: len(other.seen) > 1 or reason == "nobody listens", within_s=60)
    follower.leader_url = leader.url
    asking.join(60)
    assert [answer.status_code for answer in answers] == [201]
    assert "c" in leader.connectors


def test_request_leaves_a_frozen_leader_once_another_worker_leads(nodes: list[Node]) -> None:
    leader, follower, paused = nodes
    follower.leader_url = paused.url
    paused.leader_url = None
    wakes = threading.Event()
    paused.before_wait = lambda: wakes.wait(100) and None
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(follower.rest.post("/connectors", json=creation("c"))))
    asking.start()
    eventually(lambda: paused.seen, within_s=60)
    follower.leader_url = leader.url
    asking.join(60)
    wakes.set()
    assert [answer.status_code for answer in answers] == [201]
    assert "c" in leader.connectors


def test_change_applied_by_a_deposed_leader_is_answered_and_not_repeated(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked last: who asks the next one at once is told that there is such a connector already."""
    monkeypatch.setattr(forwarding, "_LAST_WORD_S", 60.0)
    new, follower, old = nodes
    follower.leader_url, old.leader_url = old.url, None
    is_noticed = threading.Event()
    old.before_wait = lambda: is_noticed.wait(60) and None
    located = follower.locate

    def locate(place: Any) -> str | None:
        if follower.leader_url == new.url:
            is_noticed.set()
        return located(place)

    follower.locate = locate  # type: ignore[method-assign]
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(follower.rest.post("/connectors", json=creation("c"))))
    asking.start()
    eventually(lambda: old.seen, within_s=60)
    follower.leader_url = new.url
    asking.join(60)
    assert [answer.status_code for answer in answers] == [201]
    assert "c" in old.connectors
    assert new.seen == []


def test_time_out_of_the_leader_is_passed_back_with_its_stage(nodes: list[Node]) -> None:
    leader, follower, _ = nodes
    leader.failure = RequestTimeoutError("Request timed out. The worker is currently writing a config.")
    answer = follower.rest.post("/connectors", json=creation("c"))
    assert (answer.status_code, answer.json()["message"]) == (500, leader.failure.message)


@pytest.mark.parametrize("is_change", [True, False])
def test_time_out_names_the_slow_leader_and_the_change_it_may_still_make(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch, is_change: bool
) -> None:
    monkeypatch.setattr(forwarding, "_ANSWER_S", 0.2)
    leader, follower, _ = nodes
    leader.wait_for.clear()
    path, body = ("/connectors", creation("a")) if is_change else ("/connectors/a/config", None)
    answer = follower.rest.request("POST" if is_change else "GET", path, json=body)
    leader.wait_for.set()
    assert answer.status_code == 500
    text = answer.json()["message"]
    assert f"The worker at {leader.url} did not answer within 0.2 s" in text
    assert ("may still carry the request out" in text) == is_change


def test_error_says_when_the_request_was_never_sent_to_the_leader(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "_MOST_AT_ONCE", 1)
    monkeypatch.setattr(forwarding, "REQUEST_S", 0.2)
    leader, follower, _ = nodes
    leader.wait_for.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(follower.rest.post, "/connectors", json=creation("a"))
        eventually(lambda: leader.seen)
        second = follower.rest.post("/connectors", json=creation("b"))
        leader.wait_for.set()
        assert first.result(60).status_code == 201
    assert second.status_code == 500
    assert "It was not sent to the worker" in second.json()["message"]
    assert leader.connectors.keys() == {"a"}


def test_header_rules_of_the_called_worker_apply_to_forwarded_answers() -> None:
    leader = Node()
    asked = FakeWorker()
    asked.failure = ElsewhereError(LEADER, leader.url)
    rules = parse_header_rules("set X-Frame-Options: DENY")
    server = RestServer(Endpoint(create_app(asked.operations, options=RestOptions(header_rules=rules)), "127.0.0.1", 0))
    server.start()
    try:
        answer = httpx.post(f"http://127.0.0.1:{server.port}/connectors", json=creation("c"), timeout=100)
        assert (answer.status_code, answer.headers["x-frame-options"]) == (201, "DENY")
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    finally:
        server.stop(0)
        leader.server.stop(0)


def FakeWorkerConnector() -> Any:  # noqa: N802 - a connector as the fake has it
    from .fake import FakeConnector

    return FakeConnector(dict(SOURCE))
