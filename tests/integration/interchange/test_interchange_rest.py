"""The recorded requests, sent to our worker in the same order, are answered as Kafka Connect 4.3.1 answered them."""

from accepted import ANSWERS, accepted
from answers import difference, is_same
from side import Side


def test_every_answer_equals_kafka_connects_except_accepted_differences(connect: Side, ours: Side) -> None:
    assert len(ours.exchanges) == len(connect.exchanges)
    found = [text for a, b in zip(connect.exchanges, ours.exchanges, strict=True) if (text := difference(a, b))]
    assert not found, "\n".join(found)


def test_each_accepted_difference_belongs_to_one_recorded_request(connect: Side) -> None:
    counts = {one: sum(one.fits(exchange) for exchange in connect.exchanges) for one in ANSWERS}
    assert {one: count for one, count in counts.items() if count != 1} == {}


def test_accepted_differences_exist_unless_they_depend_on_time(connect: Side, ours: Side) -> None:
    same = [accepted(a) for a, b in zip(connect.exchanges, ours.exchanges, strict=True) if is_same(a, b)]
    assert [one for one in same if one is not None and not one.depends_on_time] == []
