"""Records that were sent again to a sink's own topic for that."""

from fencepost.builtin.converter.plain import SimpleHeaderConverter, StringConverter
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import SinkRecord, TopicPartition
from fencepost.task.control import Control
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.processing import SinkProcessor

AGAIN = TopicPartition("again", 0)
RESENT = [
    ("own", b"1"),
    ("__fencepost.resent.topic", b"orders"),
    ("__fencepost.resent.partition", b"3"),
    ("__fencepost.resent.offset", b"8"),
    ("__fencepost.resent.timestamp", b"2"),
]


def processor() -> SinkProcessor:
    tolerance = Tolerance(False, 0, 1, False, False, Control(is_paused=False), "c-0")
    key, value = (StringConverter({"converter.type": kind}) for kind in ("key", "value"))
    return SinkProcessor(Chain(), key, value, SimpleHeaderConverter({}), tolerance, resend_topic="again")


def fetched(place: TopicPartition, *headers: list[tuple[str, bytes | None]]) -> Fetched:
    count = len(headers)
    return Fetched([place] * count, range(count), [5] * count, [None] * count, [b"v"] * count, headers)


def test_resent_record_belongs_to_its_original_topic() -> None:
    [record] = processor().process(fetched(AGAIN, RESENT))
    assert (record.topic, record.at, [header.key for header in record.headers]) == ("orders", AGAIN, ["own"])
    assert record.timestamp == 2  # and not 5, when it was sent again


def test_dead_letter_of_a_resent_record_keeps_its_origin_headers() -> None:
    own = processor()
    own.keeps.read = True
    [record] = own.process(fetched(AGAIN, RESENT))
    assert [(h.key, h.value) for h in own.raw_of(record).headers] == RESENT
    own.process(fetched(AGAIN))
    assert [(h.key, h.value) for h in own.raw_of(record).headers] == RESENT


def test_copy_of_a_resent_record_keeps_the_original_topic() -> None:
    own = processor()
    [record] = own.process(fetched(AGAIN, RESENT))
    own.process(fetched(AGAIN))
    made = SinkRecord(record.topic, 0, 0, record.value, headers=record.headers, at=record.at)
    kept = [("own", b"1"), ("__fencepost.resent.topic", b"orders")]
    assert [(h.key, h.value) for h in own.raw_of(made).headers] == kept


def test_other_records_of_the_resend_topic_keep_their_topic() -> None:
    [record] = processor().process(fetched(AGAIN, []))
    assert (record.topic, record.timestamp) == ("again", 5)


def test_origin_headers_are_ignored_outside_the_resend_topic() -> None:
    [record] = processor().process(fetched(TopicPartition("t", 0), RESENT))
    assert (record.topic, len(record.headers), record.timestamp) == ("t", 5, 5)


def test_malformed_origin_headers_do_not_fail_the_task() -> None:
    for digits in (b"9" * 5_000, b"9" * 19, "²".encode(), b"\xff"):
        strange: list[tuple[str, bytes | None]] = [(RESENT[1][0], b"\xff"), (RESENT[4][0], digits)]
        [record] = processor().process(fetched(AGAIN, strange))
        assert (record.topic, record.timestamp) == ("\ufffd", 5)
