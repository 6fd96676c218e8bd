"""Up to where a topic may be emptied: each refusal and each bound alone, and in doubt nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.kafka.group.group_offsets import Offsets
from fencepost.kafka.group.subscription import GroupSubscription
from fencepost.record import TopicPartition
from fencepost.retention.decision import Log, Rules, Sink, TopicDecision, TopicFacts, decide
from fencepost.storage.change import TopicRetention

TOPIC = "t"
CONFIGS = {"cleanup.policy": "delete", "remote.storage.enable": "false"}
SHARED = "shared"


def at(*offsets: int | None, topic: str = TOPIC) -> Offsets:
    """Return where somebody stands, by partition."""
    return {TopicPartition(topic, partition): offset for partition, offset in enumerate(offsets)}


def sink(*offsets: int | None, name: str = "a", fault: str = "") -> Sink:
    return Sink(name, f"connect-{name}", at(*offsets), fault)


def outside(name: str, *offsets: int | None, **more: Any) -> GroupSubscription:
    topics = frozenset({TOPIC} if offsets else ())
    return GroupSubscription(name, "classic", **{"topics": topics, "offsets": at(*offsets), **more})


def facts(*sinks: Sink, **more: Any) -> TopicFacts:
    """Return facts of a topic of one partition with 100 records, which its sinks may have committed."""
    usual = {"topic_id": "id", "is_internal": False, "configs": CONFIGS, "logs": {0: Log(0, 100, 100)}}
    return TopicFacts(TOPIC, sinks=sinks, **{**usual, **more})


def of_topic(verdict: TopicDecision, partition: int = 0) -> tuple[int, str]:
    """Return up to where a partition may go, and what holds it."""
    found = verdict.partitions[partition]
    return found.until, found.held_by


# How far


def test_records_committed_by_the_only_sink_are_deleted() -> None:
    verdict = decide(facts(sink(60)), Rules())
    assert (verdict.refusal, verdict.deletes) == ("", {0: 60})
    assert of_topic(verdict) == (60, "sink connector a, which has committed 60")


def test_topic_read_to_its_end_by_every_sink_has_no_holder() -> None:
    assert of_topic(decide(facts(sink(100)), Rules())) == (100, "")


def test_the_slowest_of_several_sinks_counts() -> None:
    verdict = decide(facts(sink(60), sink(40, name="b"), sink(90, name="c")), Rules())
    assert verdict.deletes == {0: 40}
    assert of_topic(verdict) == (40, "sink connector b, which has committed 40")


def test_each_partition_is_decided_separately() -> None:
    logs = {0: Log(0, 100, 100), 1: Log(50, 70, 70), 2: Log(7, 7, 7)}
    verdict = decide(facts(sink(10, 60, 7), logs=logs), Rules())
    assert verdict.deletes == {0: 10, 1: 60}
    assert [each.records for each in verdict.partitions] == [10, 10, 0]


@pytest.mark.parametrize(
    ("log", "rules", "until", "held_by"),
    [
        (Log(0, 30, 100), Rules(), 30, "an open transaction"),
        (Log(0, 100, 100), Rules(keep_records=25), 65, "delete.committed.keep.records"),
        (Log(0, 30, 100), Rules(keep_records=25), 5, "delete.committed.keep.records"),
        (Log(0, 100, 100, 20), Rules(), 20, "delete.committed.keep.ms"),
        (Log(0, 100, 100, 95), Rules(), 90, "sink connector a, which has committed 90"),
        (Log(0, 100, 100, 80), Rules(keep_records=25), 65, "delete.committed.keep.records"),
        (Log(80, 100, 100), Rules(keep_records=25), 80, "delete.committed.keep.records"),
        (Log(95, 100, 100), Rules(), 95, "sink connector a, which has committed 90"),
    ],
    ids=["open", "records", "records behind an open one", "ms", "all old", "both", "all kept", "begins behind"],
)
def test_each_bound_limits_the_deletion(log: Log, rules: Rules, until: int, held_by: str) -> None:
    verdict = decide(facts(sink(90), logs={0: log}), rules)
    assert of_topic(verdict) == (until, held_by)
    assert verdict.deletes == ({0: until} if until > log.start else {})


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ({}, "sink connector b has committed nothing there yet"),
        (at(None), "sink connector b has an offset there in a transaction that has not ended"),
        (at(101), "sink connector b has committed 101, beyond the end of the log at 100"),
        (at(50, topic="other"), "sink connector b has committed nothing there yet"),
    ],
    ids=["nothing", "pending", "beyond the end", "of another topic"],
)
def test_sink_without_a_certain_offset_holds_the_partition(offsets: Offsets, why: str) -> None:
    verdict = decide(facts(sink(60), Sink("b", "connect-b", offsets)), Rules())
    assert (of_topic(verdict), verdict.deletes) == ((0, why), {})


def test_partition_without_a_committed_offset_does_not_hold_the_others() -> None:
    verdict = decide(facts(sink(60), logs={0: Log(0, 100, 100), 1: Log(0, 10, 10)}), Rules())
    assert verdict.deletes == {0: 60}


# Refusals


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"is_internal": True}, "it is an internal topic"),
        ({"configs": {**CONFIGS, "cleanup.policy": "compact"}}, "its cleanup.policy is compact"),
        ({"configs": {**CONFIGS, "cleanup.policy": "compact, delete"}}, "its cleanup.policy is compact,delete"),
        ({"configs": {**CONFIGS, "cleanup.policy": "delete,compact"}}, "its cleanup.policy is delete,compact"),
        ({"configs": {**CONFIGS, "cleanup.policy": ""}}, "its cleanup.policy is not known"),
        ({"configs": {}}, "its cleanup.policy is not known"),
        ({"configs": {**CONFIGS, "remote.storage.enable": "true"}}, "its remote.storage.enable is true"),
        ({"sinks": ()}, "no sink connector reads it"),
        ({"sinks": (), "configs": {}}, "no sink connector reads it"),
        ({"blind": "groups are not seen"}, "groups are not seen"),
        ({"sinks": (sink(60), sink(name="b", fault="no right"))}, "b (group connect-b) cannot be read: no right"),
        ({"groups": (outside("x", 100),)}, "it is read by group x, outside of this cluster's sinks"),
        ({"groups": (outside("x", topics=frozenset({TOPIC})),)}, "it is read by group x"),
        ({"groups": (outside("x", patterns=("t|u",)),)}, "it is read by group x"),
        ({"groups": (outside("x", patterns=("*not Python's",)),)}, "it is read by group x"),
        ({"groups": (outside("x", doubt="it may not be described"),)}, "group x may read it: it may not be described"),
    ],
)  # fmt: skip
def test_refusal_to_delete_names_its_reason(changed: Mapping[str, Any], why: str) -> None:
    verdict = decide(replace(facts(sink(60)), **changed), Rules())
    assert why in verdict.refusal
    assert verdict.deletes == {}


def test_cleanup_policy_is_read_in_any_case_and_spacing() -> None:
    assert decide(facts(sink(60), configs={"cleanup.policy": " DELETE "}), Rules()).deletes == {0: 60}


def test_groups_of_other_topics_do_not_hold_a_topic() -> None:
    elsewhere = outside("x", topics=frozenset({"tt"}), offsets=at(1, topic="tt"), patterns=("^u",))
    assert decide(facts(sink(60), groups=[elsewhere]), Rules()).deletes == {0: 60}


def test_refusal_names_a_few_outside_groups_and_counts_the_rest() -> None:
    verdict = decide(facts(sink(60), groups=[outside(f"g{n}", 1) for n in range(9)]), Rules())
    assert "groups g0, g1, g2 and 6 more, outside" in verdict.refusal
    assert verdict.readers == tuple(f"g{n}" for n in range(9))
    assert "delete.committed.respect.groups" in verdict.refusal


@pytest.mark.parametrize("more", [{"sinks": ()}, {"is_internal": True}, {"configs": {"cleanup.policy": "compact"}}])
def test_outside_groups_are_named_only_when_they_cause_the_refusal(more: dict[str, Any]) -> None:
    """A warning is due when they become the reason, and it says why."""
    found = replace(facts(sink(60), groups=[outside("g", 1)]), **more)
    assert decide(found, Rules()).readers == ()
    assert decide(facts(sink(60), groups=[outside("g", 1)]), Rules()).readers == ("g",)


# Groups that are waited for


def test_a_respected_group_counts_like_a_sink() -> None:
    verdict = decide(facts(sink(60), groups=[outside("w", 30)]), Rules(respected={"w"}))
    assert (verdict.refusal, verdict.readers, verdict.deletes) == ("", (), {0: 30})
    assert of_topic(verdict) == (30, "group w, which has committed 30")


def test_respected_group_without_commits_holds_the_topic() -> None:
    verdict = decide(facts(sink(60), groups=[outside("w", topics=frozenset({TOPIC}))]), Rules(respected={"w"}))
    assert of_topic(verdict) == (0, "group w has committed nothing there yet")


def test_respected_group_of_other_topics_does_not_hold_a_topic() -> None:
    assert decide(facts(sink(60), groups=[outside("w")]), Rules(respected={"w"})).deletes == {0: 60}


def test_respected_group_with_unknown_subscription_holds_the_topic() -> None:
    verdict = decide(facts(sink(60), groups=[outside("w", doubt="it is rebalancing")]), Rules(respected={"w"}))
    assert (of_topic(verdict), verdict.deletes) == ((0, "group w: it is rebalancing"), {})


# What is remembered


def test_deleted_offsets_are_recorded_with_the_topic_id() -> None:
    verdict = decide(facts(sink(60)), Rules())
    assert verdict.known == TopicRetention("id", {0: 60}, {})


def test_recorded_deletions_never_shrink() -> None:
    known = TopicRetention("id", {0: 80, 1: 5})
    verdict = decide(facts(sink(60), known=known), Rules())  # its offset was reset, and nothing is deleted yet
    assert verdict.deletes == {0: 60}
    assert verdict.known == known


@pytest.mark.parametrize(
    "sinks",
    [(sink(60, None),), (sink(60), sink(60, None, name="b")), (sink(60), Sink("b", "connect-b", at(60), "no right"))],
)
@pytest.mark.parametrize("known", [None, TopicRetention("older", {0: 99}), TopicRetention("id", {0: 10}, {})])
def test_deletion_never_passes_the_recorded_offset(sinks: tuple[Sink, ...], known: TopicRetention | None) -> None:
    logs = {0: Log(0, 100, 100), 1: Log(0, 100, 100)}
    verdict = decide(facts(*sinks, logs=logs, known=known), Rules())
    remembered = verdict.known.deleted if verdict.known else {}
    assert all(remembered.get(partition, -1) >= until for partition, until in verdict.deletes.items())


def test_undecided_commit_of_another_topic_does_not_hold_a_topic() -> None:
    undecided = Sink("a", "connect-a", {**at(60), **at(None, topic="other")})
    verdict = decide(facts(undecided), Rules())
    assert (verdict.deletes, verdict.known) == ({0: 60}, TopicRetention("id", {0: 60}))


def test_topic_without_sinks_has_no_recorded_deletion() -> None:
    assert decide(facts(), Rules()).known is None


# A topic that was deleted and created again

OLDER = TopicRetention("older", {0: 60})


def test_offsets_of_a_deleted_topic_do_not_count_for_its_successor() -> None:
    verdict = decide(facts(sink(60), known=OLDER), Rules())
    assert (of_topic(verdict), verdict.deletes) == (
        (0, "sink connector a has committed offsets of an older topic of the same name"),
        {},
    )
    assert verdict.known == TopicRetention("id", {}, {"connect-a": {0: 60}})


def test_inherited_offsets_count_again_once_they_change() -> None:
    inherited = decide(facts(sink(60), known=OLDER), Rules()).known
    assert decide(facts(sink(60), known=inherited), Rules()).deletes == {}
    moved = decide(facts(sink(20), known=inherited), Rules())
    assert (moved.deletes, moved.known) == ({0: 20}, TopicRetention("id", {0: 20}, {}))
    assert decide(facts(sink(60), known=moved.known), Rules()).deletes == {0: 60}


def test_deleted_inherited_offset_holds_like_a_missing_commit() -> None:
    inherited = decide(facts(sink(60), known=OLDER), Rules()).known
    assert of_topic(decide(facts(sink(), known=inherited), Rules()))[1].endswith("has committed nothing there yet")


def test_inherited_offsets_stay_inherited_while_a_commit_is_undecided() -> None:
    inherited = decide(facts(sink(60), known=OLDER), Rules()).known
    pending = decide(facts(sink(None), known=inherited), Rules())
    assert pending.deletes == {}
    kept = inherited if pending.known is None else pending.known
    assert decide(facts(sink(60), known=kept), Rules()).deletes == {}


def test_undecided_commit_counts_as_inherited_when_a_topic_is_recreated() -> None:
    logs = {0: Log(0, 100, 100), 1: Log(0, 100, 100)}
    first = decide(facts(sink(None, 60), logs=logs, known=OLDER), Rules())
    assert first.deletes == {}
    second = decide(facts(sink(60, 60), logs=logs, known=first.known or OLDER), Rules())
    assert second.deletes == {}


def test_offsets_of_respected_groups_are_inherited_like_those_of_sinks() -> None:
    verdict = decide(facts(sink(), groups=[outside("w", 50)], known=OLDER), Rules(respected={"w"}))
    assert verdict.known == TopicRetention("id", {}, {"w": {0: 50}})


@pytest.mark.parametrize(
    "unseen",
    [{"logs": {}, "blind": "its log does not answer"}, {"blind": "groups are not seen"}, {"logs": {}}],
    ids=["logs", "groups", "nothing said"],
)
def test_recreated_topic_is_recorded_only_when_fully_described(unseen: Mapping[str, Any]) -> None:
    first = decide(facts(sink(60), known=OLDER, **unseen), Rules())
    assert (first.deletes, first.known) == ({}, None)
    assert decide(facts(sink(60), known=first.known or OLDER), Rules()).deletes == {}


def test_inherited_offsets_stay_inherited_while_their_group_does_not_read() -> None:
    inherited = decide(facts(sink(60), sink(60, name="b"), known=OLDER), Rules()).known
    without = decide(facts(sink(20), known=inherited), Rules())
    assert decide(facts(sink(40), sink(60, name="b"), known=without.known), Rules()).deletes == {}


@pytest.mark.parametrize("known", [None, TopicRetention("id", {}, {})], ids=["first met", "met before"])
def test_an_offset_beyond_the_end_does_not_count_once_the_log_has_grown(known: TopicRetention | None) -> None:
    """It is of an older topic: a sink's last commit comes behind the making of the newer one."""
    beyond = decide(facts(sink(120), known=known), Rules())
    assert beyond.deletes == {}
    grown = facts(sink(120), logs={0: Log(0, 150, 150)}, known=beyond.known)
    assert decide(grown, Rules()).deletes == {}
    assert decide(replace(grown, sinks=[sink(30)]), Rules()).deletes == {0: 30}


# Anything


LOGS = {0: Log(0, 100, 110), 1: Log(10, 60, 100, 80), 2: Log(0, 100, 100)}
STANDS = st.sampled_from([*range(20, 120, 10), *range(20, 120, 10), None, -1])  # -1: nowhere


def offsets_of_some() -> st.SearchStrategy[Offsets]:
    """Most stand somewhere in each partition."""
    three = st.lists(STANDS, min_size=3, max_size=3)
    return three.map(lambda found: {place: value for place, value in at(*found).items() if value != -1})


def some_logs() -> st.SearchStrategy[dict[int, Log]]:
    three = st.lists(st.integers(0, 120), min_size=3, max_size=3).map(sorted)
    one = st.builds(lambda found, kept: Log(found[0], found[1], found[2], kept), three, st.none() | st.integers(0, 100))
    return st.just(LOGS) | st.just(LOGS) | st.dictionaries(st.integers(0, 2), one)


def some_known() -> st.SearchStrategy[TopicRetention]:
    by_partition = st.dictionaries(st.integers(0, 2), st.sampled_from(range(20, 120, 10)))
    groups = st.sampled_from(["connect-a", "connect-b", "w"])
    return st.builds(
        TopicRetention, st.sampled_from(["id", "id", "older"]), by_partition, st.dictionaries(groups, by_partition)
    )


SINKS = st.lists(
    st.builds(
        lambda name, offsets, fault: Sink(name, f"connect-{name}", offsets, fault),
        st.sampled_from("ab"), offsets_of_some(), st.sampled_from(["", "", "", "", "", "no right"]),
    ),
    max_size=2, unique_by=lambda each: each.group,
)  # fmt: skip
GROUPS = st.lists(
    st.builds(
        lambda name, offsets, doubt: GroupSubscription(
            name, "classic", frozenset(place.topic for place in offsets), (), offsets, doubt
        ),
        st.sampled_from(["w", "w", "x"]), st.just({}) | offsets_of_some(),
        st.sampled_from([None, None, None, "hidden"]),
    ),
    max_size=2, unique_by=lambda each: each.group,
)  # fmt: skip


@settings(max_examples=300)
@given(
    sinks=SINKS, groups=GROUPS, logs=some_logs(), known=st.none() | some_known(),
    keep=st.integers(0, 30), is_waited=st.booleans(), is_blind=st.sampled_from([False, False, False, True]),
)  # fmt: skip
def test_e9_records_that_a_reader_may_still_want_are_not_deleted(
    sinks: list[Sink],
    groups: list[GroupSubscription],
    logs: dict[int, Log],
    known: TopicRetention | None,
    keep: int,
    is_waited: bool,
    is_blind: bool,
) -> None:
    given_facts = facts(*sinks, groups=groups, logs=logs, known=known, blind="no answer" if is_blind else "")
    verdict = decide(given_facts, Rules({"w"} if is_waited else set(), keep))
    waited = [group for group in groups if is_waited and group.group == "w"]
    for partition, until in verdict.deletes.items():
        place, log = TopicPartition(TOPIC, partition), logs[partition]
        assert sinks
        assert not is_blind
        for reader in sinks:
            committed = reader.offsets[place]
            assert committed is not None
            assert until <= committed <= log.end
            assert not reader.fault
        for group in waited:
            assert group.doubt is None
            if group.reads(TOPIC):
                committed = group.offsets[place]
                assert committed is not None
                assert until <= committed <= log.end
        assert not [g for g in groups if g not in waited and (g.reads(TOPIC) or g.doubt is not None)]
        assert log.start < until <= log.stable_end
        assert log.kept_from is None or until <= log.kept_from
        assert until <= min([log.stable_end, *(s.offsets[place] or 0 for s in sinks)]) - keep
        assert verdict.known is not None
        assert verdict.known.deleted[partition] >= until
        if known is not None and known.topic_id == "id":
            assert verdict.known.deleted[partition] >= known.deleted.get(partition, 0)
            for reader in sinks:
                assert known.inherited.get(reader.group, {}).get(partition) != reader.offsets[place]
        if known is not None and known.topic_id != "id":
            raise AssertionError("offsets that were there before a topic was met for the first time count")
