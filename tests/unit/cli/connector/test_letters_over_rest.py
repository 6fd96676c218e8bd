"""`fencepost dead-letters` without a word about Kafka: a worker shows them, or says where its Kafka is."""

import base64
import re
from typing import Any

import pytest

from fencepost.cli.client import client_properties
from fencepost.cli.connect import Access, Connect
from fencepost.cli.connector.dead_letters import newest_letters
from support.command_line import fencepost
from support.http_answers import Answer, Asked, HttpAnswers

ORIGIN = {"topic": "orders", "partition": 2, "offset": 17, "timestamp_ms": 1_000}
ERROR = {"stage": "VALUE_CONVERTER", "class_name": "x.Y", "exception": "RecordError", "message": "no JSON"}


def shown(text: str | bytes) -> dict[str, Any]:
    is_base64 = isinstance(text, bytes)
    data = base64.b64encode(text).decode() if isinstance(text, bytes) else text
    return {"text": data, "is_base64": is_base64, "size_bytes": len(text), "is_cut": False}


def letter(number: int, *, is_handled: bool = False, **origin: Any) -> dict[str, Any]:
    return {
        "letter": f"orders-dead-0@{number}",
        "timestamp_ms": 2_000,
        "task": 0,
        "origin": ORIGIN | origin,
        "error": {**ERROR, "stacktrace": None},
        "content": {"key": None, "value": shown(f"value {number}"), "headers": []},
        "is_handled": is_handled,
    }


def letters(asked: Asked) -> Answer:
    """Workers with three dead letters on two pages."""
    if asked.path.startswith("/connectors/c/dead-letters"):
        is_second = "before=" in asked.path
        found = [letter(4)] if is_second else [letter(9), letter(7, is_handled=True)]
        older = None if is_second else "orders-dead-0@7"
        return Answer({"topic": "orders-dead", "letters": found, "unnamed": 1, "older": older})
    if asked.path == "/kafka":
        return Answer({"cluster_id": "x", "bootstrap_servers": "kafka-1:19092"})
    return Answer({"message": "HTTP 404 Not Found"}, 404)


def test_dead_letters_come_from_the_worker_when_no_kafka_is_given() -> None:
    with HttpAnswers(letters) as served:
        done = fencepost("dead-letters", "c", "--url", served.url)
        assert {asked.path.partition("?")[0] for asked in served.asked} == {"/connectors/c/dead-letters"}
    assert done.code == 0, done.err
    first = done.out.splitlines()[0]
    assert re.search(r"^orders-dead-0@4  .*from orders-2@17 of .*VALUE_CONVERTER  task 0$", first)
    assert re.findall(r"value +(value \d)", done.out) == ["value 4", "value 7", "value 9"]
    assert done.out.count("sent again") == 1
    assert "3 dead letters of c in orders-dead\n2 more have no header with their connector" in done.out


def test_dead_letters_request_no_more_pages_than_the_limit_needs() -> None:
    with HttpAnswers(letters) as served, Connect(Access(served.url)) as connect:
        found = newest_letters(connect, "c", 2)
    assert found is not None
    assert [each.record.offset for each, _ in found.found] == [7, 9]
    assert [asked.path for asked in served.asked] == ["/connectors/c/dead-letters?limit=2"]


def test_dead_letter_over_rest_keeps_bytes_and_source_offset() -> None:
    position = {"partition": {"file": "a"}, "offset": {"line": 3}}
    one = letter(1, **position) | {"content": {"key": shown(b"\xff\x00"), "value": None, "headers": []}}
    page = {"topic": "orders-dead", "letters": [one], "unnamed": 0, "older": None}
    with HttpAnswers(lambda _: Answer(page)) as served, Connect(Access(served.url)) as connect:
        found = newest_letters(connect, "c", 20)
    assert found is not None
    ((only, _),) = found.found
    assert (only.record.key, only.record.value) == (b"\xff\x00", None)
    assert only.facts["__connect.errors.partition"] == '{"file": "a"}'


def test_kafka_connect_workers_show_no_dead_letters() -> None:
    with HttpAnswers(lambda _: Answer({"message": "no"}, 404)) as served, Connect(Access(served.url)) as connect:
        assert newest_letters(connect, "c", 20) is None


@pytest.mark.parametrize(
    ("bootstrap", "own", "brokers"),
    [(None, None, "kafka-1:19092"), ("given:1", None, "given:1"), (None, "own:2", "own:2")],
)
def test_dead_letters_use_the_workers_brokers_unless_brokers_are_given(
    bootstrap: str | None, own: str | None, brokers: str
) -> None:
    with HttpAnswers(letters) as served, Connect(Access(served.url)) as connect:
        assert client_properties(None, bootstrap, own, connect.brokers) == {"bootstrap.servers": brokers}
        assert len(served.asked) == (brokers == "kafka-1:19092")


def test_dead_letters_use_local_brokers_if_workers_do_not_report_brokers() -> None:
    with HttpAnswers(lambda _: Answer({"message": "no"}, 404)) as served, Connect(Access(served.url)) as connect:
        assert client_properties(None, None, None, connect.brokers) == {"bootstrap.servers": "127.0.0.1:9092"}
