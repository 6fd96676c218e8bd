"""The second half of a round: delete what may be deleted, and remember what came of it."""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fencepost.cluster.command import now_ms
from fencepost.cluster.info import TopicRetentionInfo
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.retention.clients import RetentionClients
from fencepost.retention.decision import TopicDecision

log = logging.getLogger(__name__)

_MOST_NAMED = 5
_LONGEST_BACK_OFF = 6  # 1, 2, 4 … 64 rounds are skipped
_OLDEST_LOOK_S = 60.0  # a deletion based on an older look would miss new readers


@dataclass
class _Tally:
    """What has happened to a topic since this worker leads."""

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
