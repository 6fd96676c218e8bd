"""A leader's retention rounds in this process, against a real broker, with a config topic in memory."""

import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from fencepost.cluster.command import ConnectorCommand
from fencepost.cluster.errors import NotLeadingError
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.record import TopicPartition
from fencepost.retention.keeper import Retention
from fencepost.retention.survey import RetentionClients, readings
from fencepost.storage import records
from fencepost.storage.change import TargetState, TopicRetention
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.testing import eventually
from fencepost.worker.plan import is_source
from fencepost.worker.settings import WorkerSettings
from support.group_commit import put_at
from support.log_writer import LogWriter
from support.memory_topic import MemoryTopic
from support.settings import SETTINGS


class Leader(MemoryTopic):
    """The port of a leader, and the config topic that it writes."""

    is_leading = True

    def __init__(self) -> None:
        super().__init__()
        self.term: object = object()
        self.before: list[Callable[[], None]] = []
        """What happens before the next command is decided."""

    def submit(self, command: ConnectorCommand) -> "Future[ClusterSnapshot]":
        outcome: Future[ClusterSnapshot] = Future()
        try:
            while self.before:
                self.before.pop()()
            if not self.is_leading:
                raise NotLeadingError
            self.write(*command.decide(self.snapshot))
            outcome.set_result(self.snapshot)
        except Exception as error:
            outcome.set_exception(error)
        return outcome


class RetentionStage:
    """A topic of ten records, a sink that has committed eight, and the retention rounds that empty the topic."""

    def __init__(self, writer: LogWriter, client: Mapping[str, str] | None = None, *, timeout_s: float = 30.0) -> None:
        """`client` is how the worker comes in, where that is not as `writer` does."""
        self.bootstrap, self.writer = writer.bootstrap, writer
        self.topic = writer.topic(f"kept-{uuid.uuid4().hex[:8]}")
        writer.send(self.topic, [str(n) for n in range(10)])
        self.leader = Leader()
        given = {
            **SETTINGS, "bootstrap.servers": writer.bootstrap, **(client or {}),
            "delete.committed.enabled": "true", "delete.committed.topics": self.topic,
        }  # fmt: skip
        settings = WorkerSettings(WorkerConfig(given), "http://w:1", "me")
        self.retention = Retention(
            settings.config, 1000, RetentionClients(settings.admin_conf(), timeout_s), (), self.leader, self.leader,
            lambda snapshot: readings(snapshot, settings, is_source, dict), settings.cluster_ids,
        )  # fmt: skip
        self.sink("a", 8)

    def sink(self, name: str, committed: int | None = None) -> str:
        """Create a sink, which has committed so far; its name is made to be nobody else's."""
        whole = f"{name}-{self.topic}"
        self.leader.write(
            records.target_state(whole, TargetState.STOPPED),
            records.connector_config(whole, {"connector.class": "FileStreamSink", "topics": self.topic}),
        )
        if committed is not None:
            self.commit(name, committed)
        return whole

    def commit(self, name: str, offset: int) -> None:
        group = GroupOffsets({"bootstrap.servers": self.bootstrap}, f"connect-{name}-{self.topic}")
        put_at(group, {TopicPartition(self.topic, 0): offset})

    def give_up(self, until: int) -> None:
        """Have another leader release the records below an offset for deletion; they are not deleted yet."""
        described = self.writer.admin.topics.get(self.topic)
        assert described is not None
        self.leader.write(records.topic_retention(self.topic, TopicRetention(described.id, {0: until})))

    def delete_topic(self) -> None:
        """Delete it; with it go the offsets that groups have there, a moment later."""
        self.writer.admin.topics.delete([self.topic])
        eventually(lambda: self.writer.admin.topics.get(self.topic) is None)

    def await_certainty(self) -> None:
        """Wait until no group of other tests on this broker is in doubt: one that rebalances or has just ended may read
        the topic, and then nothing of it is deleted in that round."""

        def is_certain() -> bool:
            found = self.retention.preview()
            refusals = [topic.refusal for topic in found.topics]
            if found.error or refusals not in ([None], ["no sink connector reads it"]):
                raise AssertionError(f"a round would delete nothing: {found}")
            return True

        eventually(is_certain, within_s=120)

    def round(self) -> str | None:
        """Go round; returns what went wrong."""
        self.retention.round()
        return self.retention.info().error

    def told(self) -> str:
        """Return all reasons that are reported for records that are not deleted."""
        info = self.retention.info()
        of_topics = [str(text) for topic in info.topics for text in (topic.refusal, topic.error)]
        return " ".join([str(info.error), *of_topics])

    @property
    def start(self) -> int:
        return self.writer.admin.offsets.starts([(self.topic, 0)])[self.topic, 0]
