"""The first half of a round: find which sinks read which topics, from the config topic alone, ask Kafka, and decide."""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from fencepost.cluster.command import now_ms
from fencepost.config import ConfigError
from fencepost.config.cluster import RetentionConfig
from fencepost.config.java_regex import SlowPatternError, compiled
from fencepost.config.reference import RawConfig
from fencepost.kafka.admin.client import Admin, ClusterIds
from fencepost.kafka.admin.topics import Topic
from fencepost.kafka.errors import ASK_S, KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.group.subscription import GroupSubscription
from fencepost.retention.decision import Log, Rules, Sink, TopicDecision, TopicFacts, decide
from fencepost.storage.change import TopicRetention
from fencepost.storage.config_topic import ConfigTopic
from fencepost.storage.snapshot import ClusterSnapshot

_ANY = ".*"
_TOPICS, _REGEX, _RESENT = "topics", "topics.regex", "errors.deadletterqueue.resend.topic.name"

REFUSED = (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError, ConfigError)
_FORGET_S = 1800.0
T = TypeVar("T")

_ASK_ONE_S = 5.0
_BLIND = (
    "this worker's principal may not Describe the cluster, so groups that it does not see may read it: grant what "
    "`fencepost acls` lists"
)


@dataclass(frozen=True)
class SinkReading:
    """The topics that a sink reads, whether or not its tasks run.

    Two equal objects read the same topics through the same group of the same brokers.

    Attributes:
        topics: the topics that its config names.
        regex: the pattern of its topics, in Java's syntax; empty if it has none.
        servers: the bootstrap servers that it reads from, from its config or the worker's.
        conf: the client settings, with the sink's principal, to ask for its group's offsets.
        fault: why the offsets cannot be asked for; empty if they can.
    """

    connector: str
    group: str
    topics: frozenset[str]
    regex: str
    servers: str
    conf: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    fault: str = field(default="", compare=False)

    def covers(self, topic: str) -> bool:
        """Return whether the sink reads a topic. A pattern that cannot be parsed, or takes too long, matches
        every topic."""
        return topic in self.topics or self._matches(topic)

    def _matches(self, topic: str) -> bool:
        if not self.regex:
            return False
        try:
            return compiled(self.regex).fullmatch(topic) is not None
        except (SlowPatternError, re.error):
            return True


Readings = tuple[SinkReading, ...]
LookUp = Callable[[RawConfig], RawConfig]
"""Returns a config with its references replaced. Raises ConfigError; KafkaUnavailableError if a store is away."""


class SinkSettings(Protocol):
    """The part of the worker's settings that is needed here."""

    def sink_group(self, connector: str, connector_config: RawConfig) -> str: ...

    def sink_admin_conf(self, connector_config: RawConfig) -> dict[str, Any]: ...


def readings(
    snapshot: ClusterSnapshot,
    settings: SinkSettings,
    is_source: Callable[[ClusterSnapshot, str], bool],
    look_up: LookUp,
) -> Readings:
    """Return what every sink reads, by connector name. A connector of an unknown class counts if it names topics."""
    return tuple(
        reading(name, config, settings, look_up)
        for name, config in sorted(snapshot.connectors.items())
        if not is_source(snapshot, name) and (config.get(_TOPICS) or config.get(_REGEX))
    )


def reading(connector: str, config: RawConfig, settings: SinkSettings, look_up: LookUp) -> SinkReading:
    """Return the topics that a sink with this config reads.

    If what its config refers to cannot be looked up, it may read any topic, and nothing is deleted (E9).
    """
    try:
        config = look_up(config)
    except (ConfigError, KafkaUnavailableError) as error:
        return SinkReading(connector, "", frozenset(), _ANY, "", fault=str(error))
    named = {topic.strip() for topic in (config.get(_TOPICS) or "").split(",")}
    resent = (config.get(_RESENT) or "").strip()
    conf: dict[str, Any] = {}
    fault = ""
    try:
        conf = settings.sink_admin_conf(config)
    except ConfigError as error:
        fault = str(error)
    return SinkReading(
        connector,
        settings.sink_group(connector, config),
        frozenset({*named, resent} - {""}),
        (config.get(_REGEX) or "").strip(),
        str(conf.get("bootstrap.servers", "")),
        conf,
        fault,
    )


class RetentionClients:
    """Creates clients when they are needed first, and counts requests. One thread at a time."""

    def __init__(self, conf: Mapping[str, Any], timeout_s: float = ASK_S) -> None:
        self.conf = dict(conf)
        self._timeout_s = timeout_s
        self._admin: Admin | None = None
        self._surveys: dict[tuple[tuple[str, str], ...], GroupSurvey] = {}
        self._questions = 0  # requests to `_admin`, so far

    def admin(self) -> Admin:
        """Return the client for one request."""
        self._questions += 1
        self._admin = self._admin or Admin(self.conf, timeout_s=self._timeout_s)
        return self._admin

    def survey(self, conf: Mapping[str, Any]) -> GroupSurvey:
        """Return the client that asks about groups with this principal."""
        key = conf_key(conf)
        if key not in self._surveys:
            self._surveys[key] = GroupSurvey(conf, timeout_s=self._timeout_s)
        return self._surveys[key]

    def requests(self) -> int:
        return self._questions + sum(survey.requests for survey in self._surveys.values())

    def close(self) -> None:
        """Close all; those that are needed later connect again."""
        for survey in self._surveys.values():
            survey.close()
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


def conf_key(conf: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in conf.items()))


class GoneTopics:
    """Decides when the config topic may forget what it holds about deleted topics, while this worker leads.

    The stored facts of a topic prevent its committed offsets from counting for a later topic with the same name. So
    they are deleted only when no such offsets can exist: no group has any, and the topic has been gone for longer than
    clients cache metadata.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def clear(self) -> None:
        self._since.clear()

    def forgotten(
        self, gone: Mapping[str, TopicRetention], groups: Sequence[GroupSubscription], now_s: float
    ) -> frozenset[str]:
        """Return which topics of `gone`, all certainly gone now, may be forgotten. `groups` are all of the cluster."""
        quiet = [(topic, known.topic_id) for topic, known in gone.items() if not _has_offsets(groups, topic)]
        self._since = {each: self._since.get(each, now_s) for each in quiet}
        return frozenset(topic for (topic, _), since in self._since.items() if now_s - since > _FORGET_S)


def _has_offsets(groups: Iterable[GroupSubscription], topic: str) -> bool:
    return any(group.doubt is not None or any(place.topic == topic for place in group.offsets) for group in groups)


@dataclass(frozen=True)
class Decided:
    """The outcome of the first half of a round."""

    verdicts: Sequence[TopicDecision]
    found: Readings
    snapshot: ClusterSnapshot
    term: object
    looked_s: float  # on the monotonic clock, which continues while a process is suspended
    forgotten: Collection[str]  # topics that are gone


class RetentionSurvey:
    """Finds out what may be deleted. One thread at a time."""

    def __init__(
        self,
        config: RetentionConfig,
        clients: RetentionClients,
        own_topics: Collection[str],
        look: Callable[[ClusterSnapshot], Readings],
        cluster_ids: ClusterIds,
    ) -> None:
        """`own_topics` are never touched. `look` returns what sinks read in a snapshot."""
        self._config = config
        self.clients = clients
        self._own_topics = frozenset(own_topics)
        self.look = look
        self._cluster_ids = cluster_ids
        self._matching = tuple(compiled(pattern) for pattern in config.delete_committed_topics)
        self._respected = tuple(compiled(pattern) for pattern in config.delete_committed_respect_groups)
        self.gone = GoneTopics()

    def decide(self, term: object, topics: ConfigTopic) -> Decided:
        """Ask Kafka, and decide. Logs are asked last, so that their ends are beyond the committed offsets."""
        looked_s = time.monotonic()
        snapshot = topics.snapshot
        found = self.look(snapshot)
        names = [name for name in self.clients.admin().topics.names() if any(p.fullmatch(name) for p in self._matching)]
        described = self.clients.admin().topics.get_all(names)
        here = self._cluster_ids.of(self.clients.conf)
        covering = {topic: [r for r in found if r.covers(topic)] for topic in described}
        read = [topic for topic, by in covering.items() if by and not self._is_internal(topic, described[topic])]
        gone = self._are_gone(snapshot, described)
        groups, blind = self._groups() if read or gone else ([], "")
        sinks = self._sinks([r for r in found if any(r in covering[topic] for topic in read)], here)
        configs, faults = self._configs(read)
        logs, silent = self._logs({topic: described[topic].partitions for topic in configs})
        faults |= silent
        respected = [g.group for g in groups if any(p.fullmatch(g.group) for p in self._respected)]
        rules = Rules(frozenset(respected), self._config.delete_committed_keep_records)
        verdicts = [
            decide(
                TopicFacts(
                    topic,
                    what.id,
                    self._is_internal(topic, what),
                    configs.get(topic, {}),
                    logs.get(topic, {}),
                    [sinks[r] for r in covering[topic] if r in sinks],
                    groups,
                    faults.get(topic) or blind,
                    snapshot.retention.get(topic),
                ),
                rules,
            )
            for topic, what in sorted(described.items())
        ]
        forgotten = self.gone.forgotten({} if blind else gone, groups, looked_s)
        return Decided(verdicts, found, snapshot, term, looked_s, sorted(forgotten))

    def _are_gone(self, snapshot: ClusterSnapshot, there: Mapping[str, Topic]) -> dict[str, TopicRetention]:
        """Return the stored facts of topics that Kafka reports as missing or as created again."""

        def ask(some: Sequence[str], is_one: bool) -> dict[str, Topic]:
            return self.clients.admin().topics.get_all(some, timeout_s=_ASK_ONE_S if is_one else None)

        found, silent = _together_or_one_by_one(snapshot.retention.keys() - there.keys(), ask)
        ids = {topic: what.id for topic, what in {**there, **found}.items()}
        return {t: r for t, r in snapshot.retention.items() if t not in silent and ids.get(t) != r.topic_id}

    def _is_internal(self, topic: str, described: Topic) -> bool:
        return described.is_internal or topic.startswith("__") or topic in self._own_topics

    def _groups(self) -> tuple[list[GroupSubscription], str]:
        survey = self.clients.survey(self.clients.conf)
        if not survey.sees_all():
            return [], _BLIND
        return survey.look(), ""

    def _sinks(self, found: Sequence[SinkReading], here: str) -> dict[SinkReading, Sink]:
        stands: dict[SinkReading, Sink] = {}
        askers: dict[tuple[tuple[str, str], ...], list[SinkReading]] = {}
        for reading in found:
            try:
                if reading.fault:
                    stands[reading] = Sink(reading.connector, reading.group, {}, reading.fault)
                elif self._cluster_ids.of(reading.conf) == here:
                    askers.setdefault(conf_key(reading.conf), []).append(reading)
            except REFUSED as error:
                stands[reading] = Sink(reading.connector, reading.group, {}, f"its cluster does not answer ({error})")
        for together in askers.values():
            stands.update(self._offsets_of_sinks(together))
        return stands

    def _offsets_of_sinks(self, together: Sequence[SinkReading]) -> dict[SinkReading, Sink]:
        """Return the offsets of sinks whose groups the same principal may ask for. A refused group affects no other."""
        client = self.clients.survey(together[0].conf)
        groups = {reading.group for reading in together}
        offsets, faults = _together_or_one_by_one(groups, lambda some, is_one: client.offsets(some))
        return {
            reading: Sink(
                reading.connector, reading.group, offsets.get(reading.group, {}), faults.get(reading.group, "")
            )
            for reading in together
        }

    def _configs(self, topics: Collection[str]) -> tuple[dict[str, dict[str, str | None]], dict[str, str]]:
        return _together_or_one_by_one(topics, lambda some, is_one: self.clients.admin().configs.get_all(some))

    def _logs(self, partitions: Mapping[str, int]) -> tuple[dict[str, dict[int, Log]], dict[str, str]]:
        def ask(some: Sequence[str], is_one: bool) -> dict[str, dict[int, Log]]:
            wanted = {topic: partitions[topic] for topic in some}
            return self._logs_of(wanted, timeout_s=_ASK_ONE_S if is_one else None)

        return _together_or_one_by_one(partitions, ask)

    def _logs_of(self, partitions: Mapping[str, int], timeout_s: float | None = None) -> dict[str, dict[int, Log]]:
        places = [(topic, partition) for topic, count in partitions.items() for partition in range(count)]
        starts = self.clients.admin().offsets.starts(places, timeout_s=timeout_s)
        stable = self.clients.admin().offsets.ends(places, read_committed=True, timeout_s=timeout_s)
        ends = self.clients.admin().offsets.ends(places, read_committed=False, timeout_s=timeout_s)
        kept = self._kept_from([place for place in places if starts[place] < ends[place]])
        found: dict[str, dict[int, Log]] = {topic: {} for topic in partitions}
        for place in places:
            found[place[0]][place[1]] = Log(starts[place], stable[place], ends[place], kept.get(place))
        return found

    def _kept_from(self, places: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int | None]:
        keep_ms = self._config.delete_committed_keep_ms
        if not keep_ms or not places:
            return {}
        young_ms = now_ms() - keep_ms
        return self.clients.admin().offsets.at_times(dict.fromkeys(places, young_ms), read_committed=False)


def _together_or_one_by_one(
    names: Collection[str], ask: Callable[[Sequence[str], bool], dict[str, T]]
) -> tuple[dict[str, T], dict[str, str]]:
    """Return the answers for topics or groups, and the errors of the others. One error does not affect the rest.

    `ask(names, is_one)` is called for all names, and if that fails, for each alone.
    """
    if not names:
        return {}, {}
    try:
        return ask(list(names), False), {}
    except REFUSED as error:
        if len(names) < 2:
            return {}, dict.fromkeys(names, str(error))
    found: dict[str, T] = {}
    faults: dict[str, str] = {}
    for name in names:
        try:
            found |= ask([name], True)
        except REFUSED as error:
            faults[name] = str(error)
    return found, faults
