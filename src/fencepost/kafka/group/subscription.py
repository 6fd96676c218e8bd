"""The topics that a group reads, of every kind of group, from the answers of its coordinator."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.errors import ensure
from fencepost.kafka.group.group_offsets import MAY_NOT_DESCRIBE, Offsets

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupSubscription:
    """The topics that a group reads, as far as brokers report them.

    Attributes:
        kind: classic, consumer, share, streams, or another of Kafka's group types.
        topics: topics of its committed offsets, of its members, and of the topology of present or former members.
        patterns: the regular expressions that members subscribe to.
        offsets: its committed offsets; empty for a share group.
        doubt: why it may read more topics than these; None if it does not.
    """

    group: str
    kind: str
    topics: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    offsets: Offsets = field(default_factory=dict)
    doubt: str | None = None

    def reads(self, topic: str) -> bool:
        """Return whether the group is known to read a topic."""
        return topic in self.topics or any(_matches(pattern, topic) for pattern in self.patterns)


def _matches(pattern: str, topic: str) -> bool:
    """Match generously: also on a part of the name, and on patterns that Python cannot parse. Brokers use RE2."""
    try:
        return "[:" in pattern or re.search(pattern, topic) is not None  # [[:alpha:]] means something else in Python
    except re.error:
        return True


def classic_topics(group: Any, doubts: dict[str, str]) -> set[str]:
    """Return the topics that members subscribe to or own. During a rebalance the coordinator does not report them."""
    from fencepost.kafka.kafka_library import ConsumerProtocolAssignment, ConsumerProtocolSubscription

    topics: set[str] = set()
    try:
        for member in group.members:
            if not member.member_metadata:
                raise ValueError("during a rebalance the coordinator does not report topics")
            topics.update(ConsumerProtocolSubscription.decode(member.member_metadata).topics)
            if member.member_assignment:
                had = ConsumerProtocolAssignment.decode(member.member_assignment).assigned_partitions
                topics.update(each.topic for each in had)
    except Exception as error:  # members write these bytes, and kafka-python may fail in any way on others' forms
        doubts[group.group_id] = f"the topics of its members are unknown for now ({error})"
    return topics


def subscribed_topics(group: Any) -> set[str]:
    named = {topic for member in group.members for topic in member.subscribed_topic_names}
    return named | {had.topic_name for member in group.members for had in member.assignment.topic_partitions}


def processed_topics(group: Any, doubts: dict[str, str]) -> set[str]:
    """Return the topics that tasks of a streams group read: sources, and changelogs from which they restore state."""
    parts = group.topology.subtopologies if group.topology is not None else None
    why = _unseen(group, parts)
    if why:
        doubts[group.group_id] = f"it is a streams group, and {why}"
    internal = [
        topic for part in parts or () for topic in (*part.repartition_source_topics, *part.state_changelog_topics)
    ]
    return {topic for part in parts or () for topic in part.source_topics} | {topic.name for topic in internal}


def _unseen(group: Any, parts: Collection[Any] | None) -> str | None:
    if group.members and not parts:
        return "its coordinator does not report what its members read"
    if any(member.is_classic or member.topology_epoch != group.topology.epoch for member in group.members):
        return "not all of its members have the topology that its coordinator reports"
    if any(not part.source_topics and not part.repartition_source_topics for part in parts or ()):
        return "a part of its topology has no sources by name"  # the response does not include patterns
    reported = {part.subtopology_id for part in parts or ()}
    if any(task.subtopology_id not in reported for member in group.members for task in _tasks(member)):
        return "its members have tasks that are not in its topology"
    return None


def _tasks(member: Any) -> list[Any]:
    given = (member.assignment, member.target_assignment)
    return [task for each in given for task in (*each.active_tasks, *each.standby_tasks, *each.warmup_tasks)]


def is_there(group: Any, doubts: dict[str, str]) -> bool:
    if group.error_code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        doubts[group.group_id] = MAY_NOT_DESCRIBE
    elif group.error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        doubts[group.group_id] = "the principal may not Describe a topic that it reads"
    elif group.error_code != KafkaError.GROUP_ID_NOT_FOUND:
        ensure(group.error_code, f"group {group.group_id}")
    return not group.error_code


def is_still_there(group: Any, doubts: dict[str, str]) -> bool:
    """Return whether a group still exists as the kind that was listed. If not, it may have become another kind."""
    if group.error_code == KafkaError.GROUP_ID_NOT_FOUND or getattr(group, "group_state", "") == DEAD:
        doubts[group.group_id] = "it has just ended or changed its kind"
        return False
    return is_there(group, doubts)
