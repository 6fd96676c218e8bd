"""The record that the leader writes in its transaction before it deletes anything (E9).

The order of the config topic decides. The decision has considered every connector whose config precedes the record; a
connector whose config follows it starts after the deleted records. A leader that was deposed in the meantime cannot
write the record. If the deletion is not carried out, the next leader carries it out.
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
    """Store facts about topics and the offsets below which records will be deleted, if the same sinks still read them.

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
