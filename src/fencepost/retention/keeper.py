"""The leader's deletion rounds: ask Kafka ▸ decide ▸ record the decision in the config topic ▸ delete (KIP-762, E9).

They run in their own thread, twice per flush interval. Data never wait for them.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from fencepost.cluster.command import ConnectorCommand, now_ms
from fencepost.cluster.errors import OperationError
from fencepost.cluster.info import RetentionInfo
from fencepost.cluster.leadership import Leadership
from fencepost.config.retention import RetentionConfig
from fencepost.kafka.admin.cluster_ids import ClusterIds
from fencepost.retention.clients import REFUSED, RetentionClients
from fencepost.retention.decision import TopicDecision
from fencepost.retention.deletion import Deletion
from fencepost.retention.intent import GiveUpRecords
from fencepost.retention.reading import Readings
from fencepost.retention.survey import Decided, Newest, RetentionSurvey
from fencepost.storage.change import TopicRetention
from fencepost.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)

_WRITE_S = 60.0
_END_S = 3.0
_ROUNDS_A_FLUSH = 2  # a topic then never holds more than what arrives during two flushes of its sinks


class RetentionLeader(Leadership, Protocol):
    """The part of `Leader` that is needed here."""

    @property
    def term(self) -> object: ...

    def submit(self, command: ConnectorCommand) -> "Future[ClusterSnapshot]": ...


class Retention:
    """Deletes committed records while this worker leads. `info` and `preview`: any thread; the rest: its own."""

    def __init__(
        self,
        config: RetentionConfig,
        flush_ms: int,
        clients: RetentionClients,
        own_topics: Collection[str],
        leader: RetentionLeader,
        topics: Newest,
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
    """The thread in which rounds are made."""

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
