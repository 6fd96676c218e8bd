"""The headers of a sink's dead letter."""

from collections.abc import Mapping
from typing import Any

import pytest

from fencepost.api import Header, SinkRecord
from fencepost.dead_letter.letter import DeadLetter
from fencepost.kafka.read.browse import TopicRecord
from fencepost.record import HeaderBytes, TopicPartition
from fencepost.task.channel.task_spec import DeadLetterSpec, InputSpec, OutputSpec, TaskSpec
from fencepost.task.failure.dead_letter_producer import DeadLetters
from fencepost.task.failure.tolerance import ErrorCounters


class Noted(DeadLetters):
    """Notes with which headers it would try to send a dead letter."""

    choices: list[list[HeaderBytes]]

    def _produce(self, value: bytes | None, choices: list[list[HeaderBytes]], fields: Mapping[str, Any]) -> None:
        self.choices = choices


@pytest.mark.parametrize("topic", ["in", "again"])
def test_origin_headers_are_kept_only_from_resent_records(topic: str) -> None:
    """Whoever writes to an input could otherwise choose where it is resent to, or say that all were resent."""
    spec = TaskSpec("c", 0, 1, "i", {}, {}, OutputSpec({}, ""), dead_letters=DeadLetterSpec("dead", headers=False),
                    input=InputSpec(resend_topic="again"))  # fmt: skip
    letters = Noted(spec, ErrorCounters())
    try:
        names = ["own", *(f"__fencepost.resent.{name}" for name in ("topic", "partition", "passed", "ahead"))]
        place, headers = TopicPartition(topic, 0), tuple(Header(name, b"1") for name in names)
        letters.add(SinkRecord(topic, 0, 3, b"v", headers=headers, at=place), "TASK_PUT", "C", ValueError("no"))
    finally:
        letters.close()
    for choice in letters.choices:
        assert [name for name, _ in choice] == (["own"] if topic == "in" else names[:3])


@pytest.mark.parametrize("has_context", [False, True])
def test_failure_headers_of_a_record_are_stripped_from_its_dead_letter(has_context: bool) -> None:
    """A record can be so large that its dead letter has few others, and these would be believed."""
    spec = TaskSpec(
        "c", 0, 1, "i", {}, {}, OutputSpec({}, ""), dead_letters=DeadLetterSpec("dead", headers=has_context)
    )
    letters = Noted(spec, ErrorCounters())
    try:
        headers = (Header("own", b"1"), Header("__connect.errors.connector.name", b"other"))
        record = SinkRecord("in", 0, 3, b"v", headers=headers, at=TopicPartition("in", 0))
        letters.add(record, "TASK_PUT", "C", ValueError("no"))
    finally:
        letters.close()
    *whole, bare, barest = letters.choices
    assert (bare, barest) == ([("own", b"1")], [("own", b"1")])
    assert [dict(choice)["__connect.errors.connector.name"] for choice in whole] == [b"c", b"c"] * has_context


def test_large_record_has_a_letter_with_its_connector_and_origin() -> None:
    spec = TaskSpec("c", 0, 1, "i", {}, {}, OutputSpec({}, ""), dead_letters=DeadLetterSpec("dead", headers=True))
    letters = Noted(spec, ErrorCounters())
    try:
        headers = (Header("own", b"1"), Header("__connect.errors.topic", b"other"))
        record = SinkRecord("in", 2, 3, b"v", headers=headers, timestamp=5, at=TopicPartition("in", 2))
        letters.add(record, "TASK_PUT", "C", ValueError("no" * 1_000))
    finally:
        letters.close()
    second = letters.choices[1]
    assert sum(len(name) + len(data or b"") for name, data in second) < 200
    letter = DeadLetter.of("dead", TopicRecord(0, 4, 9, None, b"v", tuple(second)))
    assert (letter.connector, letter.origin, letter.time_ms, letter.headers) == ("c", ("in", 2), 5, [("own", b"1")])
