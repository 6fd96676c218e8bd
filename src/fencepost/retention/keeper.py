"""The leader's deletion rounds: ask Kafka ▸ decide ▸ record the decision in the config topic ▸ delete (KIP-762, E9).

They run in their own thread, twice per flush interval. Data never wait for them.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fencepost.cluster.command import EVERY_CONNECTOR, now_ms
from fencepost.cluster.errors import ConflictError, OperationError
from fencepost.cluster.info import RetentionInfo, TopicRetentionInfo
from fencepost.cluster.leader import Leader
from fencepost.config.cluster import RetentionConfig
from fencepost.kafka.admin.client import ClusterIds
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.retention.decision import TopicDecision
from fencepost.retention.survey import REFUSED, Decided, Readings, RetentionClients, RetentionSurvey
from fencepost.storage import records
from fencepost.storage.change import TopicRetention
from fencepost.storage.config_topic import ConfigTopic
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)

_MOST_NAMED = 5
_LONGEST_BACK_OFF = 6  # 1, 2, 4 … 64 rounds are skipped
_OLDEST_LOOK_S = 60.0  # a deletion based on an older look would miss new readers


@dataclass(frozen=True)
class GiveUpRecords:
    """Store facts about topics and the offsets below which records will be deleted, if the same sinks still read them.

    The leader writes it in its transaction before it deletes anything (E9). The order of the config topic decides: the
    decision has considered every connector whose config precedes the record; a connector whose config follows it starts
    after the deleted records. A leader that was deposed in the meantime cannot write the record. If the deletion is not
    carried out, the next leader carries it out.

    A value of None deletes what is stored about a topic.

    `found` is what sinks read at the time of the decision; `look` returns what they read in a snapshot. `is_current`
    returns whether this worker has led ever since: another leader may have changed what an earlier term looked at.
    """

    topics: Mapping[str, TopicRetention | None]
    before: Mapping[str, TopicRetention | None]
    found: Readings
    look: Callable[[ClusterSnapshot], Readings]
    is_current: Callable[[], bool]
    connector: str = EVERY_CONNECTOR

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        """Return the records to write.

        Raises ConflictError if a sink was created, changed or deleted in the meantime, or another leader has decided.
        """
        if not self.is_current():
            raise ConflictError(
                "Another worker may have been leader since this deletion was decided: nothing is deleted"
            )
        if self.look(snapshot) != self.found:
            raise ConflictError("Connectors have changed since this deletion was decided: nothing is deleted")
        for topic, known in self.before.items():
            if snapshot.retention.get(topic) != known:
                raise ConflictError(f"Another leader has decided on topic {topic} in the meantime: nothing is deleted")
        return [_record(topic, known) for topic, known in sorted(self.topics.items())]


def _record(topic: str, known: TopicRetention | None) -> Encoded:
    return records.topic_retention_removed(topic) if known is None else records.topic_retention(topic, known)


@dataclass
class _Tally:
    deleted: int = 0
    deleted_ms: int | None = None
    error: str | None = None
    failures: int = 0
    rounds_left_out: int = 0
    readers: tuple[str, ...] = ()


class Deletion:
    """Deletes records of topics. One thread at a time; any thread may call `info`."""

    def __init__(self, clients: RetentionClients) -> None:
        self._clients = clients
        self._tallies: dict[str, _Tally] = {}

    def forget(self) -> None:
        """Forget what has happened, because another worker leads."""
        self._tallies.clear()

    def due(self, verdicts: Iterable[TopicDecision]) -> list[TopicDecision]:
        """Return the verdicts without those of topics that are left out for some rounds after failures."""
        return [verdict for verdict in verdicts if not self._is_left_out(verdict.topic)]

    def delete(self, due: Sequence[TopicDecision], looked_s: float) -> None:
        """Carry out recorded deletions, for topics that still have the same id, unless the look was too long ago."""
        deleting = [verdict for verdict in due if verdict.deletes]
        if not deleting:
            return
        there = self._clients.admin().topics.get_all([verdict.topic for verdict in deleting])
        same = [v for v in deleting if v.topic in there and there[v.topic].id == v.topic_id]
        starts = {(v.topic, p.partition): p.start for v in same for p in v.partitions}
        if time.monotonic() - looked_s > _OLDEST_LOOK_S:
            raise KafkaUnavailableError("It took too long to decide and to record what may be deleted")
        deletes = {(v.topic, p): until for v in same for p, until in v.deletes.items()}
        answers = self._clients.admin().offsets.delete_before(deletes)
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

    def warn(self, verdicts: Iterable[TopicDecision]) -> None:
        """Log the groups that prevent deletion from a topic, whenever they change."""
        for verdict in verdicts:
            tally = self._tallies.setdefault(verdict.topic, _Tally())
            if verdict.readers and verdict.readers != tally.readers:
                log.warning("retention: topic %s is not emptied: %s", verdict.topic, verdict.refusal)
            tally.readers = verdict.readers

    def info(self, verdicts: Iterable[TopicDecision]) -> list[TopicRetentionInfo]:
        """Return what is decided about each topic, and what has happened to it."""
        topics = []
        for v in verdicts:
            tally = self._tallies.get(v.topic, _Tally())
            seen = (tally.deleted, tally.deleted_ms)
            topics.append(TopicRetentionInfo(v.topic, v.refusal or None, tally.error, *seen, v.partitions))
        return topics

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


def _counted(gone: "Counter[str]") -> str:
    shown = ", ".join(f"{count} of {topic}" for topic, count in gone.most_common(_MOST_NAMED))
    return shown if len(gone) <= _MOST_NAMED else f"{shown} and {len(gone) - _MOST_NAMED} other topics"


_WRITE_S = 60.0
_END_S = 3.0
_ROUNDS_A_FLUSH = 2  # a topic then never holds more than what arrives during two flushes of its sinks


class Retention:
    """Deletes committed records while this worker leads. `info` and `preview`: any thread; the rest: its own."""

    def __init__(
        self,
        config: RetentionConfig,
        flush_ms: int,
        clients: RetentionClients,
        own_topics: Collection[str],
        leader: Leader,
        topics: ConfigTopic,
        look: Callable[[ClusterSnapshot], Readings],
        cluster_ids: ClusterIds,
    ) -> None:
        """`own_topics` are never touched. `look` returns what sinks read in a snapshot."""
        self._leader = leader
        self._topics = topics
        self._survey = RetentionSurvey(config, clients, own_topics, look, cluster_ids)
        self._deletion = Deletion(clients)
        self.offsets_lock = threading.Lock()
        """Held while a sink's offsets are changed, so that offsets that were read stay valid until the decision is
        recorded."""
        self._round_lock = threading.Lock()
        self._info = RetentionInfo(config.delete_committed_enabled)
        self._rounds = _Rounds(flush_ms / 1000 / _ROUNDS_A_FLUSH, self._begin_round)

    def start(self) -> None:
        """Start the thread if `delete.committed.enabled` is set."""
        if self._info.is_enabled:
            self._rounds.start()

    def stop(self) -> None:
        """Stop the thread. A round in progress completes if it does so soon."""
        self._rounds.stop()
        if self._round_lock.acquire(timeout=_END_S):  # else a round waits for Kafka until the process ends
            self._survey.clients.close()
            self._round_lock.release()

    def info(self) -> RetentionInfo:
        """Return the result of the last round."""
        return self._info

    def preview(self) -> RetentionInfo:
        """Return what would be decided now, without writing or deleting anything."""
        with self._round_lock:
            try:
                return self._info_of(lambda: self._decided().verdicts)
            except REFUSED as error:
                self._survey.clients.close()
                return RetentionInfo(self._info.is_enabled, error=str(error))

    def round(self) -> None:
        """Delete what may be deleted now. `info` reports errors, and the next round tries again."""
        with self._round_lock:
            try:
                self._info = self._info_of(self._carried_out)
            except (*REFUSED, OperationError, TimeoutError) as error:
                self._survey.clients.close()
                log.warning("retention: nothing more is deleted in this round: %s", error)
                self._info = RetentionInfo(True, self._info.decided_ms, str(error), topics=self._info.topics)

    def _begin_round(self) -> None:
        if self._leader.is_leading:
            self.round()
        else:
            self._deletion.forget()
            self._survey.gone.clear()
            self._info = RetentionInfo(True)

    def _carried_out(self) -> Sequence[TopicDecision]:
        with self.offsets_lock:
            decided = self._decided()
            due = self._deletion.due(decided.verdicts)
            self._write(decided, due)
        self._deletion.warn(decided.verdicts)
        self._deletion.delete(due, decided.looked_s)
        return decided.verdicts

    def _decided(self) -> Decided:
        return self._survey.decide(self._leader.term, self._topics)

    def _write(self, decided: Decided, due: Iterable[TopicDecision]) -> None:
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
            command = GiveUpRecords(
                facts, known, decided.found, self._survey.look, lambda: self._leader.term is decided.term
            )
            self._leader.submit(command).result(_WRITE_S)
        if decided.forgotten:
            log.info("retention: removed stored facts about deleted topics: %s", ", ".join(decided.forgotten))

    def _info_of(self, decide: Callable[[], Sequence[TopicDecision]]) -> RetentionInfo:
        before = self._survey.clients.requests()
        verdicts = decide()
        asked = self._survey.clients.requests() - before
        return RetentionInfo(self._info.is_enabled, now_ms(), None, asked, self._deletion.info(verdicts))


class _Rounds:
    def __init__(self, every_s: float, make: Callable[[], None]) -> None:
        self._every_s = every_s
        self._make = make
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    def _run(self) -> None:
        began_s = time.monotonic()
        while not self._is_over.wait(pause_s(self._every_s, time.monotonic() - began_s)):
            began_s = time.monotonic()
            try:
                self._make()
            except Exception:
                log.exception("retention: a round failed")


def pause_s(every_s: float, took_s: float) -> float:
    """Return the seconds until the next round. Rounds follow the clock; a slow round leaves time for other work."""
    return max(every_s - took_s, every_s / 4)
