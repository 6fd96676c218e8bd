"""What a dead letter holds of a source's record."""

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from fencepost.api import Header, SinkRecord, SourceRecord
from fencepost.record import TopicPartition
from fencepost.task.channel.task_spec import DeadLetterSpec, InputSpec, OutputSpec, TaskSpec
from fencepost.task.failure.dead_letter_producer import TransactionDeadLetters, to_bytes_for_dlq


class Wordless:
    """Cannot even be printed."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"n": 1, "b": b"\xff", "when": datetime.date(2026, 1, 2)}, {"n": 1, "b": "/w==", "when": "2026-01-02"}),
        ("text", "text"),
        (2**70, 2**70),
        ({1: Decimal("1.50")}, {"1": "1.50"}),
        ("half \ud800", "half \ud800"),
        ({"w": Wordless()}, "<dict>"),
    ],
    ids=["a map", "a text", "a large number", "a decimal", "half a character", "what nobody can print"],
)
def test_dead_letter_value_other_than_bytes_is_json(value: Any, wanted: Any) -> None:
    assert json.loads(to_bytes_for_dlq(value) or b"") == wanted


def test_dead_letter_value_of_bytes_or_none_is_unchanged() -> None:
    assert to_bytes_for_dlq(b"\x00\xff") == b"\x00\xff"
    assert to_bytes_for_dlq(None) is None


def test_dead_letter_value_that_contains_itself_is_serialised() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert to_bytes_for_dlq(circle)


def spec(*, headers: bool = False) -> TaskSpec:
    letters = DeadLetterSpec("dead", headers=headers)
    return TaskSpec("c", 0, 1, "i", {}, {}, OutputSpec({}, "offsets"), dead_letters=letters)


def letters_of(own: TaskSpec, **changes: Any) -> Any:
    record = SourceRecord({"f": 1}, None, "t", "v", headers=(Header("h", "x"), Header("b", b"y")))
    letters = TransactionDeadLetters(own, lambda stage, error: "some.Class")
    letters.tell("TRANSFORMATION", ValueError("why"), record.replace(**changes))
    letters.at(7)
    return letters.take()


def test_dead_letter_keeps_the_time_of_its_record_in_a_header_only() -> None:
    """Retention counts from the letter's time: with the record's it would go at once."""
    for context in (True, False):
        found = letters_of(spec(headers=context), timestamp=5)
        assert found.timestamps is None
        assert dict(found.headers[0])["__fencepost.record.timestamp"] == b"5"


def test_dead_letter_replaces_lone_surrogates_in_header_names() -> None:
    found = letters_of(spec(), headers=(Header("\ud800x", b"y"),))
    assert found.headers[0] == [("?x", b"y")]


def test_failure_headers_of_a_record_are_stripped_from_its_dead_letter() -> None:
    """A record can be so large that its dead letter has no others, and these would be believed."""
    brought = (Header("__connect.errors.connector.name", b"other"),)
    assert list(letters_of(spec(), headers=brought).headers[0]) == []
    large = b"x" * 900_000, b"y" * 99_000
    [headers] = letters_of(spec(headers=True), value=large[0], key=large[1], headers=brought).headers
    assert dict(headers).get("__connect.errors.connector.name") in (None, b"c")


FORGED = ("topic", "partition", "offset", "timestamp", "passed", "ahead", "more")


@pytest.mark.parametrize("place", [None, TopicPartition("in", 0), TopicPartition("again", 0)])
def test_dead_letter_keeps_origin_headers_only_if_fencepost_wrote_them(
    place: TopicPartition | None,
) -> None:
    """Whoever writes to an input could otherwise say where a letter came from, and how far letters were resent."""
    headers = tuple(Header(f"__fencepost.resent.{name}", b"1") for name in FORGED)
    record = SourceRecord({"f": 1}, None, "again", "v", headers=headers)
    read = None if place is None else SinkRecord("again", 0, 0, b"v", headers=headers, at=place)
    own = spec()
    letters = TransactionDeadLetters(
        replace(own, input=InputSpec(resend_topic="again")), lambda stage, error: "some.Class"
    )
    letters.tell("TRANSFORMATION", ValueError("why"), read or record)
    letters.at(7)
    found = letters.take()
    assert found is not None
    kept = [name for name, _ in found.headers[0]]
    is_resent = place is not None and place.topic == "again"
    assert kept == [f"__fencepost.resent.{name}" for name in FORGED[:4] if is_resent]


def test_without_context_headers_a_letter_has_the_headers_of_its_record() -> None:
    found = letters_of(spec())
    assert list(found.headers[0]) == [("h", b'"x"'), ("b", b"y")]
    assert (list(found.sources), list(found.topics)) == ([7], ["dead"])


def test_a_record_without_an_offset_leaves_the_header_empty() -> None:
    headers = dict(letters_of(spec(headers=True)).headers[0])
    assert headers["__connect.errors.offset"] == b""


@pytest.mark.parametrize("length", [900_000, 990_000])
def test_context_headers_are_omitted_if_they_make_a_dead_letter_too_large(length: int) -> None:
    found = letters_of(spec(headers=True), value=b"v" * length, topic="t" * 20_000)
    assert any("connect" in name for name, _ in found.headers[0]) is (length == 900_000)


@pytest.mark.parametrize("timestamp", [-1, None, "yesterday"])
def test_impossible_record_time_is_omitted_from_a_dead_letter(timestamp: Any) -> None:
    assert "__fencepost.record.timestamp" not in dict(letters_of(spec(), timestamp=timestamp).headers[0])


@pytest.mark.parametrize(("length", "is_kept"), [(998_950, True), (998_960, False)])
def test_record_time_is_omitted_if_it_makes_a_dead_letter_too_large(length: int, is_kept: bool) -> None:
    found = letters_of(spec(headers=True), value=b"v" * length, timestamp=1_700_000_000_000)
    assert ("__fencepost.record.timestamp" in dict(found.headers[0])) is is_kept
    assert "h" in dict(found.headers[0])


def test_cleared_dead_letters_are_not_taken() -> None:
    letters = TransactionDeadLetters(spec(), lambda stage, error: "")
    assert letters.take() is None
    letters.tell("TRANSFORMATION", ValueError(), SourceRecord({}, {}, "t", "v"))
    letters.clear()
    assert letters.take() is None
