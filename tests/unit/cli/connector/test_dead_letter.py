"""A dead letter as it is shown."""

import json
from typing import Any

import pytest

from fencepost.cli.connector.dead_letters import lines, summary, to_json
from fencepost.dead_letter.letter import DeadLetter
from fencepost.dead_letter.page import shown
from fencepost.kafka.read.browse import TopicRecord
from fencepost.rest.response import to_json as answer_of


def letter(value: bytes | None = b"v", *, own: tuple[Any, ...] = (), **facts: str) -> DeadLetter:
    context = tuple((f"__connect.errors.{name.replace('_', '.')}", text.encode()) for name, text in facts.items())
    return DeadLetter.of("dead", TopicRecord(0, 4, 1_000, None, value, (*own, *context)))


SINK = {"topic": "orders", "partition": "2", "offset": "8", "connector_name": "c", "task_id": "0", "stage": "TASK_PUT"}


def test_dead_letter_of_a_sink_shows_its_origin() -> None:
    own = letter(**SINK)
    assert (own.connector, own.origin, own.headers) == ("c", ("orders", 2), [])
    [first, *_] = lines(own, is_sent_again=True)
    assert first == "dead-0@4  1970-01-01 00:00:01Z  from orders-2@8  TASK_PUT  task 0  sent again"
    assert to_json(own, is_sent_again=False)["origin"] == {
        "topic": "orders",
        "partition": 2,
        "offset": 8,
        "timestamp": 1_000,
    }


def test_dead_letter_of_a_source_has_a_source_offset_and_cannot_be_resent() -> None:
    own = letter(topic="t", partition='{"file":"a"}', offset='{"line":2}', connector_name="c")
    assert own.origin is None
    assert to_json(own, is_sent_again=False)["origin"]["offset"] == {"line": 2}


@pytest.mark.parametrize("forged", ["NaN", '{"a": [-Infinity]}', "1e999", "[NaN, 99999999999999999999]"])
def test_source_offset_that_json_cannot_represent_stays_text(forged: str) -> None:
    own = letter(topic="t", partition=forged, offset=forged, connector_name="c")
    for answer in (json.dumps(to_json(own, is_sent_again=False)).encode(), answer_of(shown(own, is_handled=False))):
        origin = json.loads(answer)["origin"]
        assert (origin["partition"], origin["offset"]) == (forged, forged)


def test_dead_letter_of_a_resent_record_shows_its_first_origin() -> None:
    resent = tuple(
        (f"__fencepost.resent.{name}", text)
        for name, text in (("topic", b"o"), ("partition", b"1"), ("offset", b"7"), ("timestamp", b"3"))
    )
    own = letter(own=(("h", b"1"), *resent), **{**SINK, "topic": "again", "partition": "0", "offset": "3"})
    assert own.origin == ("o", 1)
    assert own.headers == [("h", b"1")]
    assert own.resent_headers == [("h", b"1"), *resent]


def test_partly_known_origin_is_not_completed_with_the_resend_topic() -> None:
    """Earlier versions kept only the topic if a sink reported a record after its batch."""
    own = letter(own=(("__fencepost.resent.topic", b"o"),), **{**SINK, "topic": "again", "partition": "0"})
    assert own.origin is None
    assert (own.connector, to_json(own, is_sent_again=False)["origin"]["topic"]) == ("c", "o")


def test_dead_letter_of_a_dead_letter_keeps_headers_of_the_earlier_failure() -> None:
    first = letter(own=(("h", b"1"), ("__fencepost.record.timestamp", b"5")), **{**SINK, "connector_name": "other"})
    again = letter(own=(*first.record.headers, ("__fencepost.record.timestamp", b"7")), **SINK)
    assert (again.connector, again.headers) == ("c", list(first.record.headers))
    resent = again.resent_headers
    assert resent[: len(first.record.headers)] == list(first.record.headers)
    assert letter(own=(*resent, ("__fencepost.record.timestamp", b"9")), **SINK).resent_headers == resent


@pytest.mark.parametrize("digits", ["9" * 5_000, "9" * 19, "²", "٣", "-1", ""])
def test_dead_letter_header_with_an_impossible_number_is_ignored(digits: str) -> None:
    """Any producer may have written the headers; no number in them may fail a page or a resend."""
    text = digits.encode()
    for name in ("resent.timestamp", "record.timestamp"):
        assert letter(own=((f"__fencepost.{name}", text),), **SINK).time_ms == 1_000
    assert letter(**{**SINK, "partition": digits}).origin is None


def test_dead_letter_shows_the_timestamp_of_its_record() -> None:
    own = letter(own=(("__fencepost.record.timestamp", b"7"),), **SINK)
    assert (own.time_ms, own.headers) == (7, [])
    assert ("__fencepost.resent.timestamp", b"7") in own.resent_headers
    assert to_json(own, is_sent_again=False)["origin"]["timestamp"] == 7
    [first, *_] = lines(own, is_sent_again=False)
    assert first.startswith("dead-0@4  1970-01-01 00:00:01Z  from orders-2@8 of 1970-01-01 00:00:00Z  TASK_PUT")


def test_dead_letter_of_a_resent_record_shows_its_first_timestamp() -> None:
    times = (("__fencepost.resent.timestamp", b"3"), ("__fencepost.record.timestamp", b"7"))
    assert letter(own=times, **SINK).time_ms == 3


def test_timestamp_beyond_the_calendar_is_shown_as_a_number() -> None:
    own = letter(own=(("__fencepost.record.timestamp", b"9" * 18),), **SINK)
    text = "\n".join(lines(own, is_sent_again=False))
    assert f"of {'9' * 18} ms" in text


def test_dead_letter_without_a_timestamp_header_has_its_own_timestamp() -> None:
    assert letter(**SINK).time_ms == 1_000


def test_printed_dead_letter_is_shortened_and_has_no_control_characters() -> None:
    own = letter(b"\x1b[31mred\n" + b"x" * 5_000, **SINK, exception_message="a\nb\x1b")
    text = "\n".join(lines(own, is_sent_again=False))
    assert "\x1b" not in text
    assert len(text.splitlines()) == 4
    assert max(map(len, text.splitlines())) < 200


def test_binary_value_of_a_dead_letter_is_shown_escaped_or_in_base64() -> None:
    own = letter(b"\xff\x00", **SINK)
    assert "  value  \\xff\\x00" in list(lines(own, is_sent_again=False))
    assert to_json(own, is_sent_again=False)["value"] == {"base64": "/wA="}
    assert json.dumps(to_json(letter(None, **SINK), is_sent_again=False)["value"]) == "null"


def test_dead_letter_without_error_headers_is_printed_with_the_reason() -> None:
    own = letter(**{name: SINK[name] for name in ("topic", "partition", "offset", "connector_name")})
    first, second, *_ = lines(own, is_sent_again=False)
    assert first == "dead-0@4  1970-01-01 00:00:01Z  from orders-2@8"
    assert second == "  too large for headers about its failure"


def test_dead_letter_without_context_headers_is_marked_and_counted() -> None:
    own = letter()
    assert own.connector is None
    assert "without context headers" in "\n".join(lines(own, is_sent_again=False))
    assert summary([own], "dead", "c") == "1 dead letter of c in dead; 1 of them have no header with their connector"
