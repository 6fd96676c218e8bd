"""Decides up to which offsets records of a topic may be deleted: pure functions over facts from Kafka (KIP-762).

In doubt nothing is deleted, and the verdict says why (E9).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.cluster.info import PartitionRetention
from fencepost.kafka.group.group_offsets import Offsets
from fencepost.kafka.group.subscription import GroupSubscription
from fencepost.record import TopicPartition
from fencepost.storage.change import TopicRetention

_POLICY, _TIERED = "cleanup.policy", "remote.storage.enable"


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one partition: its start offset, its last stable offset (no transaction is open below), and its end.

    `kept_from` is the offset of the first record that is too young to be deleted (`delete.committed.keep.ms`).
    """

    start: int
    stable_end: int
    end: int
    kept_from: int | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink that reads the topic, with its committed offsets. `fault` says why the offsets are not known."""

    connector: str
    group: str
    offsets: Offsets = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """All facts that a decision about one topic needs.

    Attributes:
        configs: its effective configs.
        logs: the logs of all its partitions.
        sinks: all sinks that read it, in whatever state.
        groups: all groups of the cluster, including those of sinks.
        blind: why some groups or end offsets could not be seen; empty if all were.
        known: what the config topic holds about it; None if nothing yet.
    """

    topic: str
    topic_id: str
    is_internal: bool
    configs: Mapping[str, str | None]
    logs: Mapping[int, Log]
    sinks: Sequence[Sink]
    groups: Sequence[GroupSubscription] = ()
    blind: str = ""
    known: TopicRetention | None = None


@dataclass(frozen=True, slots=True)
class TopicDecision:
    """The decision about one topic.

    Attributes:
        refusal: why nothing of the topic may be deleted; empty if deletion is allowed.
        readers: groups of other programs that read it and are not in the respected groups, if that is the refusal.
        deletes: the offset up to which records are deleted, for each partition with any.
        known: what to store about the topic from now on; None if too little is known, and nothing is deleted.
    """

    topic: str
    topic_id: str
    refusal: str = ""
    partitions: tuple[PartitionRetention, ...] = ()
    readers: tuple[str, ...] = ()
    deletes: Mapping[int, int] = field(default_factory=dict)
    known: TopicRetention | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The worker's settings: the groups to wait for, and how many offsets to keep below the lowest committed one."""

    respected: Collection[str] = ()  # those of the listed groups
    keep_records: int = 0


def decide(facts: TopicFacts, rules: Rules) -> TopicDecision:
    """Return up to which offsets records of a topic may be deleted now."""
    own = {sink.group for sink in facts.sinks}
    others = [group for group in facts.groups if group.group not in own]
    reading = [group for group in others if group.reads(facts.topic)]
    waited = [
        Sink("", group.group, group.offsets, group.doubt or "")
        for group in others
        if group.group in rules.respected and (group in reading or group.doubt is not None)
    ]
    everybody = [*facts.sinks, *waited]
    inherited = _inherited(facts, everybody)
    readers = tuple(sorted(group.group for group in reading if group.group not in rules.respected))
    refusal = _refusal(facts, others, readers)
    partitions = tuple(
        _of_partition(facts.topic, partition, log, everybody, inherited, rules.keep_records)
        for partition, log in sorted(facts.logs.items())
    )
    is_known = _is_known(facts, everybody)
    goes = {each.partition: each.until for each in partitions if each.records}
    deletes = {} if refusal or not is_known else goes  # E9: nothing is deleted before that is recorded
    known = TopicRetention(facts.topic_id, _given_up(facts, deletes), inherited) if is_known else None
    named = readers if refusal == _read_by(readers) else ()
    return TopicDecision(facts.topic, facts.topic_id, refusal, partitions, named, deletes, known)


def _is_known(facts: TopicFacts, readers: Sequence[Sink]) -> bool:
    if not readers or facts.blind or not facts.logs or any(reader.fault for reader in readers):
        return False
    places = [TopicPartition(facts.topic, partition) for partition in facts.logs]
    is_undecided = any(reader.offsets.get(place, 0) is None for reader in readers for place in places)
    return not (is_undecided and _is_another(facts))


def _is_another(facts: TopicFacts) -> bool:
    return facts.known is not None and facts.known.topic_id != facts.topic_id


def _inherited(facts: TopicFacts, readers: Sequence[Sink]) -> dict[str, dict[int, int]]:
    """Return the offsets that groups have from an older topic with this name, as found when this topic was first seen.

    They do not count for this topic until they change. An offset beyond the end of its log is from an older topic, too.
    """
    before = facts.known.inherited if facts.known is not None and not _is_another(facts) else {}
    away = before.keys() - {reader.group for reader in readers}
    found = {reader.group: _of_older(facts, reader, before.get(reader.group, {})) for reader in readers}
    kept = {group: dict(before[group]) for group in away}
    return {**kept, **{group: offsets for group, offsets in found.items() if offsets}}


def _of_older(facts: TopicFacts, reader: Sink, before: Mapping[int, int]) -> dict[int, int]:
    is_another = _is_another(facts)
    found: dict[int, int] = {}
    for partition, log in facts.logs.items():
        if TopicPartition(facts.topic, partition) not in reader.offsets:
            continue
        at = _at(reader, facts.topic, partition)
        if at is None:
            found |= {partition: before[partition]} if partition in before else {}
        elif is_another or at == before.get(partition) or at > log.end:
            found[partition] = at
    return found


def _given_up(facts: TopicFacts, deletes: Mapping[int, int]) -> dict[int, int]:
    """Return the offsets below which deletion is recorded. They never decrease: an earlier leader may still delete."""
    before = dict(facts.known.deleted) if facts.known is not None and not _is_another(facts) else {}
    return before | {partition: max(until, before.get(partition, 0)) for partition, until in deletes.items()}


def _at(sink: Sink, topic: str, partition: int) -> int | None:
    return sink.offsets.get(TopicPartition(topic, partition))


def _refusal(facts: TopicFacts, others: Iterable[GroupSubscription], readers: Sequence[str]) -> str:
    if facts.is_internal:
        return "it is an internal topic"
    if not facts.sinks:
        return "no sink connector reads it"
    if facts.blind and not facts.configs:
        return facts.blind
    policy = (facts.configs.get(_POLICY) or "").replace(" ", "").lower()
    if policy != "delete":
        return f"its {_POLICY} is {policy or 'not known'}: records are deleted only from topics with delete alone"
    if (facts.configs.get(_TIERED) or "false").lower() != "false":
        return f"its {_TIERED} is true: records in remote storage are never deleted"
    if facts.blind:
        return facts.blind
    if readers:
        return _read_by(readers)
    unseen = next((group for group in others if group.doubt is not None), None)
    if unseen is not None:
        return f"group {unseen.group} may read it: {unseen.doubt}"
    unasked = next((sink for sink in facts.sinks if sink.fault), None)
    if unasked is None:
        return ""
    named = f"sink connector {unasked.connector} (group {unasked.group})"
    return f"the offsets of {named} cannot be read: {unasked.fault}"


def _read_by(readers: Sequence[str]) -> str:
    return (
        f"it is read by {_listed(readers)}, outside of this cluster's sinks: add names to be waited for to "
        "delete.committed.respect.groups, or delete groups that are no longer in use"
    )


def _listed(groups: Sequence[str]) -> str:
    shown = ", ".join(groups[:3]) + (f" and {len(groups) - 3} more" if len(groups) > 3 else "")
    return f"group {shown}" if len(groups) == 1 else f"groups {shown}"


def _of_partition(
    topic: str,
    partition: int,
    log: Log,
    readers: Sequence[Sink],
    inherited: Mapping[str, Mapping[int, int]],
    keep_records: int,
) -> PartitionRetention:
    until, held_by = log.end, ""
    for reader in readers:
        at = _at(reader, topic, partition)
        place = TopicPartition(topic, partition)
        if reader.fault:
            return _held(partition, log, f"{_named(reader)}: {reader.fault}")
        if place not in reader.offsets:
            return _held(partition, log, f"{_named(reader)} has committed nothing there yet")
        if at is None:
            return _held(partition, log, f"{_named(reader)} has an offset there in a transaction that has not ended")
        if at > log.end:
            return _held(partition, log, f"{_named(reader)} has committed {at}, beyond the end of the log at {log.end}")
        if partition in inherited.get(reader.group, {}):
            return _held(partition, log, f"{_named(reader)} has committed offsets of an older topic of the same name")
        if at < until:
            until, held_by = at, f"{_named(reader)}, which has committed {at}"
    until, held_by = _lower(until, held_by, log.stable_end, "an open transaction")
    until, held_by = _lower(until, held_by, until - keep_records, "delete.committed.keep.records")
    if log.kept_from is not None:
        until, held_by = _lower(until, held_by, log.kept_from, "delete.committed.keep.ms")
    return PartitionRetention(partition, log.start, log.end, max(until, log.start), held_by)


def _lower(until: int, held_by: str, bound: int, text: str) -> tuple[int, str]:
    return (bound, text) if bound < until else (until, held_by)


def _held(partition: int, log: Log, why: str) -> PartitionRetention:
    return PartitionRetention(partition, log.start, log.end, log.start, why)


def _named(reader: Sink) -> str:
    return f"sink connector {reader.connector}" if reader.connector else f"group {reader.group}"
