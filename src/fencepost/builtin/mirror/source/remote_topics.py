"""The topics at both ends of a flow: creates the target's, and keeps them like the source's.

A topic that may not be read, created or written, or is closed to connectors, is skipped and logged; the others are
mirrored.

Decisions of a mirror, as pure functions: which topics, their remote names, and which task copies what.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fencepost.api import FatalError, ReplicationPolicy
from fencepost.builtin.mirror.setting.filters import NameFilter, TopicSelection
from fencepost.builtin.mirror.setting.mirror_settings import MirrorSettings, ReplicationSettings
from fencepost.config.cluster import ALL_OPEN, CLOSED, ClosedTopics
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import Topic, TopicAcl, TopicSetting, TopicSpec
from fencepost.kafka.errors import KafkaAuthorizationError
from fencepost.kafka.wire.requests import Refusals
from fencepost.record import TopicPartition


@dataclass(frozen=True)
class Selection:
    """Which topics of the source are mirrored, and their names at the target.

    `takes` is the user's filter of names. Topics of mirroring itself, and those that came from the target, are never
    mirrored. With `with_heartbeats` topics of heartbeats are mirrored even if the filter excludes them. The last two
    fields are what is closed to connectors at each end.
    """

    policy: ReplicationPolicy
    source_alias: str
    target_alias: str
    takes: Callable[[str], bool]
    with_heartbeats: bool = True
    closed_at_source: ClosedTopics = ALL_OPEN
    closed_at_target: ClosedTopics = ALL_OPEN

    def remote_topic(self, topic: str) -> str:
        """Return the name at the target of a topic of the source."""
        return self.policy.format_remote_topic(self.source_alias, topic)

    def is_closed(self, topic: str) -> bool:
        """Say whether a topic may not be read at the source, or its remote topic may not be changed at the target."""
        return self.closed_at_source.has(topic) or self.closed_at_target.has(self.remote_topic(topic))

    def chosen(self, topics: Iterable[str]) -> list[str]:
        """Return, in order, those of the source's topics that are mirrored."""
        return sorted(topic for topic in topics if self.is_chosen(topic))

    def is_chosen(self, topic: str) -> bool:
        if self.policy.is_internal_topic(topic) or self._is_cycle(topic):
            return False
        return self.takes(topic) or (self.with_heartbeats and self.policy.is_heartbeats_topic(topic))

    def _is_cycle(self, topic: str) -> bool:
        """Say whether a topic came from the target, through any number of clusters."""
        source = self.policy.topic_source(topic)
        if source is None:
            return False
        upstream = self.policy.upstream_topic(topic)
        return source == self.target_alias or (upstream not in (None, topic) and self._is_cycle(str(upstream)))


def shared_names(topics: Iterable[str], selection: Selection) -> dict[str, list[str]]:
    """Return remote topics that several topics would be mirrored into, which would mix their records."""
    sources: dict[str, list[str]] = {}
    for topic in sorted(topics):
        sources.setdefault(selection.remote_topic(topic), []).append(topic)
    return {remote: found for remote, found in sources.items() if len(found) > 1}


@dataclass(frozen=True)
class Shortage:
    """What the target lacks, by topic of the source: total numbers of partitions."""

    missing: Mapping[str, int] = field(default_factory=dict)
    too_small: Mapping[str, int] = field(default_factory=dict)


def shortage(source: Mapping[str, int], target: Mapping[str, int], selection: Selection) -> Shortage:
    """Compare numbers of partitions, given by topic of the source and by topic of the target."""
    have = {topic: target.get(selection.remote_topic(topic)) for topic in source}
    return Shortage(
        {topic: count for topic, count in source.items() if have[topic] is None},
        {topic: count for topic, count in source.items() if 0 < (have[topic] or 0) < count},
    )


def partitions_to_copy(
    source: Mapping[str, int], target: Mapping[str, int], selection: Selection
) -> list[TopicPartition]:
    """Return, in order, the partitions of the source that exist at the target, too."""
    return [
        TopicPartition(topic, number)
        for topic, count in sorted(source.items())
        for number in range(min(count, target.get(selection.remote_topic(topic), 0)))
    ]


def divided(partitions: Sequence[TopicPartition], most_tasks: int) -> list[list[TopicPartition]]:
    """Deal partitions in turn to at most `most_tasks` tasks; no task is empty."""
    count = min(most_tasks, len(partitions))
    return [list(partitions[number::count]) for number in range(count)]


def as_text(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions in the format of a task's property: `a-0,a-1`."""
    return ",".join(f"{topic}-{partition}" for topic, partition in partitions)


def from_text(names: Iterable[str]) -> list[TopicPartition]:
    """Parse the parts of `as_text` between commas. Raises ValueError for anything that is not a partition."""
    parted = (name.strip().rpartition("-") for name in names)
    return [TopicPartition(topic, int(number)) for topic, _, number in parted]


log = logging.getLogger(__name__)

_ALLOW, _READ, _WRITE, _ALL = "ALLOW", "READ", "WRITE", "ALL"
_MOST_NAMED = 20


@dataclass(frozen=True)
class ConfigRule:
    """Which topic configs go to the target: those that the filter takes, with or without the source's defaults."""

    filter: NameFilter
    takes_source_defaults: bool = False

    def changes(self, settings: Mapping[str, TopicSetting]) -> dict[str, str | None]:
        """Return the configs that a remote topic should have: a value, or None for the target's default."""
        return {
            key: None if setting.is_default and not self.takes_source_defaults else setting.value
            for key, setting in settings.items()
            if not (setting.is_fixed or setting.is_of_broker) and self.filter.takes(key)
        }


class RemoteTopics:
    """Creates and updates the topics of one flow. One thread. Methods raise KafkaUnavailableError: retry."""

    def __init__(self, source: Admin, target: Admin, selection: Selection, rule: ConfigRule, replication: int) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._rule = rule
        self._replication = replication
        self._left_out: dict[str, str] = {}  # skipped topics of the source, and why
        self._unread: list[str] = []  # topics of the source that may not be read
        self._topics: list[str] = []  # mirrored topics
        self._granted: set[TopicAcl] = set()

    def leave_out(self, source: ClosedTopics, target: ClosedTopics) -> None:
        """Mirror no topics that are closed at the source, nor into any that are closed at the target."""
        self._selection = replace(self._selection, closed_at_source=source, closed_at_target=target)

    def refresh(self) -> list[TopicPartition]:
        """Look at both clusters, create what the target lacks, and return the partitions that can be copied now.

        Raises FatalError if topics would be mixed.
        """
        chosen = self._selection.chosen(self._source.topics.names())
        closed = {topic: PermissionError(CLOSED) for topic in chosen if self._selection.is_closed(topic)}
        chosen = [topic for topic in chosen if topic not in closed]
        self._keep_apart(chosen)
        source, left_out = self._source.topics.look_at(chosen)
        left_out |= closed
        remote = {topic: self._selection.remote_topic(topic) for topic in source}
        target, refused = self._target.topics.look_at(set(remote.values()))
        left_out |= {topic: refused[name] for topic, name in remote.items() if name in refused}
        left_out |= self._not_writable(remote, target)
        counts = {topic: view.partitions for topic, view in source.items() if topic not in left_out}
        have = {name: view.partitions for name, view in target.items()}
        left_out |= self._make(counts, have)
        self._log_left_out(left_out)
        self._unread = sorted(_withheld(source, _READ) - left_out.keys())
        self._topics = sorted(counts.keys() - left_out.keys())
        return partitions_to_copy(counts, have, self._selection)

    def remark(self) -> str | None:
        """Return a remark about topics that are not mirrored; None if there are none."""
        why = dict.fromkeys(self._unread, f"{_READ} on it is not granted at the source") | self._left_out
        if not why:
            return None
        named = [f"{topic}: {why[topic]}" for topic in sorted(why)[:_MOST_NAMED]]
        more = f"; and {len(why) - len(named)} more" if len(why) > len(named) else ""
        return f"Topics not mirrored, while the others are ({len(why)}): {'; '.join(named)}{more}"

    def sync_configs(self) -> None:
        """Give remote topics the configs of the source's topics."""
        settings, unseen = self._source.configs.settings(self._topics)
        wanted = {self._selection.remote_topic(topic): self._rule.changes(found) for topic, found in settings.items()}
        have, _ = self._target.configs.settings(wanted.keys())
        changes = {name: _different(wanted[name], found) for name, found in have.items()}
        refused = self._target.configs.alter(changes)
        for name, error in (unseen | refused).items():
            log.warning("the configs of topic %s are not mirrored: %s", name, error)
        if changed := sorted(name for name, settings in changes.items() if settings and name not in refused):
            log.info("updated the configs of %s to those of the source", ", ".join(changed))

    def sync_acls(self) -> None:
        """Let principals that may read a topic of the source read its remote topic; it grants no writing."""
        try:
            known = self._source.acls.list()
        except KafkaAuthorizationError as denied:
            key = ReplicationSettings.key_of("sync_topic_acls_enabled")
            log.warning("the ACLs of topics are not mirrored: %s To mirror none, set %s to false", denied, key)
            return
        acls = {
            self._remote_acl(acl)
            for acl in known
            if acl.topic in self._topics and (acl.permission, acl.operation) != (_ALLOW, _WRITE)
        }
        fresh = acls - self._granted
        refused = self._target.acls.create(fresh)
        for name, error in refused.items():
            log.warning("the ACLs of topic %s are not mirrored: %s", name, error)
        self._granted |= {acl for acl in fresh if acl.topic not in refused}

    def _keep_apart(self, topics: Sequence[str]) -> None:
        for remote, mixed in shared_names(topics, self._selection).items():
            raise FatalError(
                f"The topics {', '.join(mixed)} of {self._selection.source_alias} would all be named {remote} at "
                f"{self._selection.target_alias}, where their records would be mixed. Exclude all but one of them "
                f"({TopicSelection.key_of('topics_exclude')}), or set a "
                f"{MirrorSettings.key_of('replication_policy_class')} that gives them different names"
            )

    def _not_writable(self, remote: Mapping[str, str], target: Mapping[str, Topic]) -> Refusals:
        """Return the topics that may not be written, if others may.

        If none may be written, this principal is not the writer: records go through the worker's producer, whose
        principal
        may differ.
        """
        there = {topic: target[name] for topic, name in remote.items() if name in target}
        closed = _withheld(there, _WRITE)
        return {topic: PermissionError(f"{_WRITE} on {remote[topic]} is not granted") for topic in closed}

    def _make(self, counts: Mapping[str, int], have: dict[str, int]) -> Refusals:
        """Create what the target lacks, and add it to `have`. Returns the topics for which that failed."""
        remote = {topic: self._selection.remote_topic(topic) for topic in counts}
        lacking = shortage(counts, have, self._selection)
        configs, refused = self._source.configs.settings(lacking.missing.keys())
        specs = {}
        for topic, found in configs.items():
            set_by_somebody = {key: value for key, value in self._rule.changes(found).items() if value is not None}
            specs[remote[topic]] = TopicSpec(lacking.missing[topic], self._replication, set_by_somebody)
        failed = self._target.topics.create_all(specs)
        larger = {remote[topic]: count for topic, count in lacking.too_small.items()}
        too_small = self._target.topics.add_partitions(larger)
        have |= {name: spec.partitions for name, spec in specs.items() if name not in failed}
        have |= {name: count for name, count in larger.items() if name not in too_small}
        for name, error in too_small.items():
            log.error("topic %s cannot get more partitions; the source's new ones are not mirrored: %s", name, error)
        return refused | {topic: failed[name] for topic, name in remote.items() if name in failed}

    def _log_left_out(self, left_out: Mapping[str, Exception]) -> None:
        """Log each topic that is skipped once."""
        reasons = {topic: str(error) for topic, error in left_out.items()}
        for topic, why in reasons.items():
            if self._left_out.get(topic) != why:
                log.error("topic %s is not mirrored, the others are: %s", topic, why)
        for topic in self._left_out.keys() - reasons.keys():
            log.info("topic %s can be mirrored again", topic)
        self._left_out = reasons

    def _remote_acl(self, acl: TopicAcl) -> TopicAcl:
        is_all = (acl.permission, acl.operation) == (_ALLOW, _ALL)
        operation = _READ if is_all else acl.operation
        return replace(acl, topic=self._selection.remote_topic(acl.topic), operation=operation)


def _withheld(views: Mapping[str, Topic], operation: str) -> set[str]:
    """Return the topics without the right, if others have it. If none has it, the principal does not need it."""
    closed = {topic for topic, view in views.items() if not view.allows(operation)}
    return set() if len(closed) == len(views) else closed


def _different(wanted: Mapping[str, str | None], have: Mapping[str, TopicSetting]) -> dict[str, str | None]:
    """Return the wanted settings that a topic lacks, among those that its cluster knows."""
    known = {key: value for key, value in wanted.items() if key in have}
    return {key: value for key, value in known.items() if not _is_so(value, have[key])}


def _is_so(value: str | None, setting: TopicSetting) -> bool:
    if value is None:
        return setting.is_default or setting.is_of_broker
    return setting.value == value and not setting.is_default
