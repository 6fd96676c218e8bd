"""The verdict detects every kind of anomaly, and reports none if there is none."""

import time

from fencepost.testing.verdict import Observation, Sighting, judge

EXPECTED = {"a": [0, 1, 2, 3], "b": [0, 1]}
ALL = [("a", 0), ("b", 0), ("a", 1), ("a", 2), ("b", 1), ("a", 3)]


def test_verdict_is_clean_when_all_records_are_seen_once_and_in_order():
    verdict = judge(EXPECTED, ALL)
    assert verdict.is_clean
    assert (verdict.expected, verdict.observed) == (6, 6)
    assert "clean" in str(verdict)


def test_a_lost_tail_is_missing():
    assert judge(EXPECTED, ALL[:-1]).missing == (("a", 3),)


def test_all_records_are_missing_when_none_was_seen():
    assert len(judge(EXPECTED, []).missing) == 6


def test_a_second_sighting_is_duplicated_and_not_reordered():
    verdict = judge(EXPECTED, [*ALL, ("a", 1)])
    assert verdict.duplicated == (("a", 1),)
    assert verdict.reordered == ()
    assert verdict.missing == ()


def test_earlier_record_after_a_later_record_is_reordered():
    verdict = judge({"a": [0, 1, 2]}, [("a", 0), ("a", 2), ("a", 1)])
    assert verdict.reordered == (("a", 1),)
    assert not verdict.is_clean


def test_record_that_was_never_given_is_unexpected():
    verdict = judge(EXPECTED, [*ALL, ("a", 99), ("c", 0)])
    assert set(verdict.unexpected) == {("a", 99), ("c", 0)}


def test_equal_records_are_compared_by_their_number():
    lines = {"f": ["x", "y", "x"]}
    assert judge(lines, [("f", "x"), ("f", "y"), ("f", "x")]).is_clean
    assert judge(lines, [("f", "x"), ("f", "y")]).missing == (("f", "x"),)
    assert judge(lines, [("f", "x"), ("f", "y"), ("f", "x"), ("f", "x")]).duplicated == (("f", "x"),)


def observations(*places: tuple[str, int, str]) -> list[Observation]:
    return [Observation(topic, partition, text[:1].encode(), text.encode()) for topic, partition, text in places]


def parsed(observation: Observation) -> tuple[str, int]:
    source, _, sequence = (observation.value or b"").decode().partition(":")
    return source, int(sequence)


def test_order_does_not_matter_between_partitions():
    seen = observations(("t", 1, "a:1"), ("t", 0, "a:0"), ("t", 0, "a:2"), ("t", 1, "a:3"))
    assert judge({"a": [0, 1, 2, 3]}, seen, sighting=parsed).is_clean


def test_record_with_a_payload_of_another_topic_is_misrouted():
    seen = observations(("t-a", 0, "a:0"), ("t-b", 0, "a:1"))
    verdict = judge({"a": [0, 1]}, seen, sighting=parsed, is_at_home=lambda o: o.topic == f"t-{parsed(o)[0]}")
    assert verdict.misrouted == (seen[1],)
    assert "t-b" in str(verdict)


def test_a_payload_that_cannot_be_read_is_unexpected():
    verdict = judge({}, observations(("t", 0, "garbage")), sighting=parsed)
    assert verdict.unexpected == (Sighting("t-0", b"garbage"),)
    assert verdict.observed == 1


def test_text_of_a_verdict_names_the_first_few_of_many_records():
    text = str(judge({"a": range(1_000)}, []))
    assert "1,000 missing: a/0, a/1" in text
    assert len(text) < 200


def test_verdict_on_a_million_records_takes_seconds():
    expected = {"a": range(500_000), "b": range(500_000)}
    seen = [(source, n) for n in range(500_000) for source in "ab"]
    started = time.process_time()  # of this process: how busy the machine is does not count
    assert judge(expected, seen).is_clean
    assert judge(expected, seen[:-1]).missing == (("b", 499_999),)
    assert time.process_time() - started < 10
