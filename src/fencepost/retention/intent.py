"""What is written before anything is deleted: by whoever leads, in its transaction, or not at all (E9).

The order of the config topic decides. A connector whose config stands in front of the record was looked at; one that
comes behind begins behind what is given up. A leader that was deposed meanwhile cannot write it. What was written and
not carried out is carried out by whoever leads next.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fencepost.cluster.command import EVERY_CONNECTOR
from fencepost.cluster.errors import ConflictError
from fencepost.retention.reading import Readings
from fencepost.storage import records
from fencepost.storage.change import TopicRetention
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot


@dataclass(frozen=True)
class GiveUpRecords:
    """Remember what is known of topics, and give up records of them, if the same sinks read them still.

    None of a topic forgets it.

    `found` is what sinks read when it was decided, `look` says what they read by a snapshot. `is_current` says whether
    this worker has led ever since: what was looked at in an earlier term, somebody else may have changed after it.
    """

    topics: Mapping[str, TopicRetention | None]
    before: Mapping[str, TopicRetention | None]
    found: Readings
    look: Callable[[ClusterSnapshot], Readings]
    is_current: Callable[[], bool]
    connector: str = EVERY_CONNECTOR

    def decide(self, snapshot: ClusterSnapshot) -> Sequence[Encoded]:
        """Raise ConflictError where a sink was created, changed or deleted meanwhile, or another leader was faster."""
        if not self.is_current():
            raise ConflictError("Another worker may have led while it was decided what may be deleted: nothing is")
        if self.look(snapshot) != self.found:
            raise ConflictError("Connectors were changed while it was decided what may be deleted: nothing is")
        for topic, known in self.before.items():
            if snapshot.retention.get(topic) != known:
                raise ConflictError(f"Another leader has decided on topic {topic} meanwhile: nothing is deleted")
        return [_record(topic, known) for topic, known in sorted(self.topics.items())]


def _record(topic: str, known: TopicRetention | None) -> Encoded:
    return records.topic_retention_removed(topic) if known is None else records.topic_retention(topic, known)
