"""The leader's deletion rounds: ask Kafka ▸ decide ▸ record the decision in the config topic ▸ delete (KIP-762, E9).

They run in their own thread, twice per flush interval. Data never wait for them.
"""

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from fencepost.cluster.command import ConnectorCommand, now_ms
from fencepost.cluster.errors import OperationError
from fencepost.cluster.info import RetentionInfo, TopicRetentionInfo
from fencepost.cluster.leadership import Leadership
from fencepost.config import ConfigError
from fencepost.config.retention import RetentionConfig
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.cluster_ids import ClusterIds
from fencepost.kafka.admin.topics import Topic
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.group.subscription import GroupSubscription
from fencepost.retention.decision import Log, Rules, Sink, TopicDecision, TopicFacts, decide
from fencepost.retention.gone import GoneTopics
from fencepost.retention.intent import GiveUpRecords
from fencepost.retention.reading import Readings, SinkReading
from fencepost.storage.change import TopicRetention
from fencepost.storage.snapshot import ClusterSnapshot

T = TypeVar("T")
log = logging.getLogger(__name__)

_ASK_S = 30.0
_ASK_ONE_S = 5.0
_WRITE_S = 60.0
_END_S = 3.0
_MOST_NAMED = 5
_ROUNDS_A_FLUSH = 2  # a topic then never holds more than what arrives during two flushes of its sinks
_LONGEST_BACK_OFF = 6  # 1, 2, 4 … 64 rounds are skipped
_OLDEST_LOOK_S = 60.0  # a deletion based on an older look would miss new readers
_REFUSED = (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError, ConfigError)
_BLIND = (
    "this worker's principal may not Describe the cluster, so groups that it does not see may read it: grant what "
    "`fencepost acls` lists"
)


class RetentionLeader(Leadership, Protocol):
    """The part of `Leader` that is needed here."""

    @property
    def term(self) -> object: ...

    def submit(self, command: ConnectorCommand) -> "Future[ClusterSnapshot]": ...


class Newest(Protocol):
    """The part of the config topic's reader that is needed here."""

    @property
    def snapshot(self) -> ClusterSnapshot: ...


@dataclass
class _Tally:
    """What has happened to a topic since this worker leads."""

    deleted: int = 0
    deleted_ms: int | None = None
    error: str | None = None
    failures: int = 0
    rounds_left_out: int = 0
    readers: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Decided:
    """The outcome of the first half of a round."""

    verdicts: Sequence[TopicDecision]
    found: Readings
    snapshot: ClusterSnapshot
    term: object
    looked_s: float  # on the monotonic clock, which continues while a process is suspended
    forgotten: Collection[str]  # topics that are gone


class Retention:
    """Deletes committed records while this worker leads. `info` and `preview`: any thread; the rest: its own."""

    def __init__(
        self,
        config: RetentionConfig,
        flush_ms: int,
        conf: Mapping[str, Any],
        own_topics: Collection[str],
        leader: RetentionLeader,
        topics: Newest,
        look: Callable[[ClusterSnapshot], Readings],
        cluster_ids: ClusterIds,
    ) -> None:
        """`conf` (librdkafka's names) is used to ask and to delete. `own_topics` are never touched. `look` returns what
        sinks read in a snapshot."""
        self._config = config
        self._every_s = flush_ms / 1000 / _ROUNDS_A_FLUSH
        self._conf = dict(conf)
        self._own_topics = frozenset(own_topics)
        self._leader = leader
        self._topics = topics
        self._look = look
        self._cluster_ids = cluster_ids
        self.offsets_lock = threading.Lock()
        """Held while a sink's offsets are changed, so that offsets that were read stay valid until the decision is
        recorded."""
        self._matching = tuple(re.compile(pattern) for pattern in config.delete_committed_topics)
        self._respected = tuple(re.compile(pattern) for pattern in config.delete_committed_respect_groups)
        self._round_lock = threading.Lock()
        self._admin: Admin | None = None
        self._surveys: dict[tuple[tuple[str, str], ...], GroupSurvey] = {}
        self._tallies: dict[str, _Tally] = {}
        self._gone = GoneTopics()
        self._info = RetentionInfo(config.delete_committed_enabled)
        self._questions = 0  # requests to `_admin`, so far
        self._counted = 0  # all requests, when the round began
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Start the thread if `delete.committed.enabled` is set."""
        if self._config.delete_committed_enabled:
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread. A round in progress completes if it does so soon."""
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join(_END_S)
        if self._round_lock.acquire(timeout=_END_S):  # else a round waits for Kafka until the process ends
            self._let_go()
            self._round_lock.release()

    def info(self) -> RetentionInfo:
        """Return the result of the last round."""
        return self._info

    def preview(self) -> RetentionInfo:
        """Return what would be decided now, without writing or deleting anything."""
        with self._round_lock:
            try:
                return self._info_of(self._decided().verdicts)
            except _REFUSED as error:
                self._let_go()
                return RetentionInfo(self._config.delete_committed_enabled, error=str(error))

    def round(self) -> None:
        """Delete what may be deleted now. `info` reports errors, and the next round tries again."""
        with self._round_lock:
            try:
                self._info = self._info_of(self._carried_out())
            except (*_REFUSED, OperationError, TimeoutError) as error:
                self._let_go()
                log.warning("retention: nothing more is deleted in this round: %s", error)
                self._info = RetentionInfo(True, self._info.decided_ms, str(error), topics=self._info.topics)

    def _run(self) -> None:
        began_s = time.monotonic()
        while not self._is_over.wait(pause_s(self._every_s, time.monotonic() - began_s)):
            began_s = time.monotonic()
            if not self._leader.is_leading:
                self._tallies.clear()
                self._gone.clear()
                self._info = RetentionInfo(True)
                continue
            try:
                self.round()
            except Exception:
                log.exception("retention: a round failed")

    def _carried_out(self) -> Sequence[TopicDecision]:
        with self.offsets_lock:
            decided = self._decided()
            due = [verdict for verdict in decided.verdicts if not self._is_left_out(verdict.topic)]
            self._write(decided, due)
        self._warn(decided.verdicts)
        self._delete(due, decided.looked_s)
        return decided.verdicts

    def _write(self, decided: _Decided, due: Iterable[TopicDecision]) -> None:
        """Record new facts and decisions in the config topic. Raises OperationError; then nothing is deleted."""
        before = decided.snapshot.retention
        facts: dict[str, TopicRetention | None] = dict.fromkeys(decided.forgotten)
        facts |= {
            v.topic: v.known
            for v in due
            if v.known is not None and (v.deletes or v.known != before.get(v.topic))  # the last record may be old
        }
        if facts:
            known = {topic: before.get(topic) for topic in facts}
            command = GiveUpRecords(facts, known, decided.found, self._look, lambda: self._leader.term is decided.term)
            self._leader.submit(command).result(_WRITE_S)
        if decided.forgotten:
            log.info("retention: removed stored facts about deleted topics: %s", ", ".join(decided.forgotten))

    def _delete(self, due: Sequence[TopicDecision], looked_s: float) -> None:
        """Carry out recorded deletions, for topics that still have the same id, unless the look was too long ago."""
        deleting = [verdict for verdict in due if verdict.deletes]
        if not deleting:
            return
        there = self._asked().topics.get_all([verdict.topic for verdict in deleting])
        same = [v for v in deleting if v.topic in there and there[v.topic].id == v.topic_id]
        starts = {(v.topic, p.partition): p.start for v in same for p in v.partitions}
        if time.monotonic() - looked_s > _OLDEST_LOOK_S:
            raise KafkaUnavailableError("It took too long to decide and to record what may be deleted")
        deletes = {(v.topic, p): until for v in same for p, until in v.deletes.items()}
        answers = self._asked().offsets.delete_before(deletes)
        errors: dict[str, Exception] = {}
        gone: Counter[str] = Counter()
        for (topic, partition), answer in answers.items():
            if isinstance(answer, Exception):
                errors[topic] = answer
            else:
                gone[topic] += max(0, answer - starts[topic, partition])
        for topic, count in gone.items():
            tally = self._tallies.setdefault(topic, _Tally())
            tally.deleted, tally.deleted_ms = tally.deleted + count, now_ms()
        if gone:
            log.info("retention: deleted %d offsets that all sinks have committed: %s", gone.total(), _counted(gone))
        for verdict in same:
            self._record_result(verdict.topic, errors.get(verdict.topic))

    def _is_left_out(self, topic: str) -> bool:
        tally = self._tallies.get(topic)
        if tally is None or not tally.rounds_left_out:
            return False
        tally.rounds_left_out -= 1
        return True

    def _record_result(self, topic: str, error: Exception | None) -> None:
        tally = self._tallies.setdefault(topic, _Tally())
        if error is None:
            tally.error, tally.failures = None, 0
            return
        tally.rounds_left_out = 1 << min(tally.failures, _LONGEST_BACK_OFF)
        tally.failures += 1
        tally.error = str(error)
        log.warning("retention: records of topic %s could not be deleted: %s", topic, error)

    def _warn(self, verdicts: Iterable[TopicDecision]) -> None:
        """Log the groups that prevent deletion from a topic, whenever they change."""
        for verdict in verdicts:
            tally = self._tallies.setdefault(verdict.topic, _Tally())
            if verdict.readers and verdict.readers != tally.readers:
                log.warning("retention: topic %s is not emptied: %s", verdict.topic, verdict.refusal)
            tally.readers = verdict.readers

    def _decided(self) -> _Decided:
        """Ask Kafka, and decide. Logs are asked last, so that their ends are beyond the committed offsets."""
        self._counted = self._asked_so_far()
        term, looked_s = self._leader.term, time.monotonic()
        snapshot = self._topics.snapshot
        found = self._look(snapshot)
        names = [name for name in self._asked().topics.names() if any(p.fullmatch(name) for p in self._matching)]
        described = self._asked().topics.get_all(names)
        here = self._cluster_ids.of(self._conf)
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
        forgotten = self._gone.forgotten({} if blind else gone, groups, looked_s)
        return _Decided(verdicts, found, snapshot, term, looked_s, sorted(forgotten))

    def _are_gone(self, snapshot: ClusterSnapshot, there: Mapping[str, Topic]) -> dict[str, TopicRetention]:
        """Return the stored facts of topics that Kafka reports as missing or as created again."""

        def ask(some: Sequence[str], is_one: bool) -> dict[str, Topic]:
            return self._asked().topics.get_all(some, timeout_s=_ASK_ONE_S if is_one else None)

        found, silent = _together_or_one_by_one(snapshot.retention.keys() - there.keys(), ask)
        ids = {topic: what.id for topic, what in {**there, **found}.items()}
        return {t: r for t, r in snapshot.retention.items() if t not in silent and ids.get(t) != r.topic_id}

    def _is_internal(self, topic: str, described: Topic) -> bool:
        return described.is_internal or topic.startswith("__") or topic in self._own_topics

    def _groups(self) -> tuple[list[GroupSubscription], str]:
        survey = self._client(self._conf)
        if not survey.sees_all():
            return [], _BLIND
        return survey.look(), ""

    def _sinks(self, found: Sequence[SinkReading], here: str) -> dict[SinkReading, Sink]:
        """Return the offsets of sinks that read, or may read, this cluster."""
        stands: dict[SinkReading, Sink] = {}
        askers: dict[tuple[tuple[str, str], ...], list[SinkReading]] = {}
        for reading in found:
            try:
                if reading.fault:
                    stands[reading] = Sink(reading.connector, reading.group, {}, reading.fault)
                elif self._cluster_ids.of(reading.conf) == here:
                    askers.setdefault(_key(reading.conf), []).append(reading)
            except _REFUSED as error:
                stands[reading] = Sink(reading.connector, reading.group, {}, f"its cluster does not answer ({error})")
        for together in askers.values():
            stands.update(self._offsets_of_sinks(together))
        return stands

    def _offsets_of_sinks(self, together: Sequence[SinkReading]) -> dict[SinkReading, Sink]:
        """Return the offsets of sinks whose groups the same principal may ask for. A refused group affects no other."""
        client = self._client(together[0].conf)
        try:
            offsets = client.offsets({reading.group for reading in together})
        except _REFUSED as error:
            offsets = {}
            if len(together) == 1:
                return {together[0]: Sink(together[0].connector, together[0].group, {}, str(error))}
            return {each: sink for one in together for each, sink in self._offsets_of_sinks([one]).items()}
        return {reading: Sink(reading.connector, reading.group, offsets.get(reading.group, {})) for reading in together}

    def _configs(self, topics: Collection[str]) -> tuple[dict[str, dict[str, str | None]], dict[str, str]]:
        return _together_or_one_by_one(topics, lambda some, is_one: self._asked().configs.get_all(some))

    def _logs(self, partitions: Mapping[str, int]) -> tuple[dict[str, dict[int, Log]], dict[str, str]]:
        def ask(some: Sequence[str], is_one: bool) -> dict[str, dict[int, Log]]:
            return self._logs_of({topic: partitions[topic] for topic in some}, _ASK_ONE_S if is_one else None)

        return _together_or_one_by_one(partitions, ask)

    def _logs_of(self, partitions: Mapping[str, int], timeout_s: float | None = None) -> dict[str, dict[int, Log]]:
        places = [(topic, partition) for topic, count in partitions.items() for partition in range(count)]
        starts = self._asked().offsets.starts(places, timeout_s=timeout_s)
        stable = self._asked().offsets.ends(places, read_committed=True, timeout_s=timeout_s)
        ends = self._asked().offsets.ends(places, read_committed=False, timeout_s=timeout_s)
        kept = self._kept_from([place for place in places if starts[place] < ends[place]])
        found: dict[str, dict[int, Log]] = {topic: {} for topic in partitions}
        for place in places:
            found[place[0]][place[1]] = Log(starts[place], stable[place], ends[place], kept.get(place))
        return found

    def _kept_from(self, places: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], int | None]:
        keep_ms = self._config.delete_committed_keep_ms
        if not keep_ms or not places:
            return {}
        return self._asked().offsets.at_times(dict.fromkeys(places, now_ms() - keep_ms), read_committed=False)

    def _asked(self) -> Admin:
        self._questions += 1
        self._admin = self._admin or Admin(self._conf, timeout_s=_ASK_S)
        return self._admin

    def _client(self, conf: Mapping[str, Any]) -> GroupSurvey:
        key = _key(conf)
        if key not in self._surveys:
            self._surveys[key] = GroupSurvey(conf, timeout_s=_ASK_S)
        return self._surveys[key]

    def _let_go(self) -> None:
        for survey in self._surveys.values():
            survey.close()
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _info_of(self, verdicts: Iterable[TopicDecision]) -> RetentionInfo:
        topics = []
        for v in verdicts:
            tally = self._tallies.get(v.topic, _Tally())
            seen = (tally.deleted, tally.deleted_ms)
            topics.append(TopicRetentionInfo(v.topic, v.refusal or None, tally.error, *seen, v.partitions))
        asked = self._asked_so_far() - self._counted
        return RetentionInfo(self._config.delete_committed_enabled, now_ms(), None, asked, topics)

    def _asked_so_far(self) -> int:
        return self._questions + sum(survey.requests for survey in self._surveys.values())


def pause_s(every_s: float, took_s: float) -> float:
    """Return the seconds until the next round. Rounds follow the clock; a slow round leaves time for other work."""
    return max(every_s - took_s, every_s / 4)


def _together_or_one_by_one(
    topics: Collection[str], ask: Callable[[Sequence[str], bool], dict[str, T]]
) -> tuple[dict[str, T], dict[str, str]]:
    """Return the answers for topics, and the errors of the others. An error of one topic does not affect the rest.

    `ask(topics, is_one)` is called for all topics, and if that fails, for each topic alone.
    """
    if not topics:
        return {}, {}
    try:
        return ask(list(topics), False), {}
    except _REFUSED as error:
        if len(topics) < 2:
            return {}, dict.fromkeys(topics, str(error))
    found: dict[str, T] = {}
    faults: dict[str, str] = {}
    for topic in topics:
        try:
            found |= ask([topic], True)
        except _REFUSED as error:
            faults[topic] = str(error)
    return found, faults


def _counted(gone: "Counter[str]") -> str:
    shown = ", ".join(f"{count} of {topic}" for topic, count in gone.most_common(_MOST_NAMED))
    return shown if len(gone) <= _MOST_NAMED else f"{shown} and {len(gone) - _MOST_NAMED} other topics"


def _key(conf: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in conf.items()))
