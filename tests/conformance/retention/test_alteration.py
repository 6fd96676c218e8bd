"""A sink's offsets are moved while, for all this worker knows, another one may lead and give up records."""

import threading
from collections.abc import Iterator

import pytest

from fencepost.cluster.command import ConnectorCommand, PutConnector
from fencepost.cluster.errors import BadRequestError, ConflictError, ElsewhereError, NotLeadingError
from fencepost.cluster.info import LEADER, ConnectorOffset
from fencepost.config.worker import WorkerConfig
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.record import TopicPartition
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.offset.sink import SinkOffsets
from fencepost.worker.plan import class_of
from fencepost.worker.settings import WorkerSettings
from support.log_writer import LogWriter
from support.retention_scene import RetentionStage
from support.settings import SETTINGS


class Alteration:
    """Whoever alters, and how often it has asked the leader. By the number of a question, what happens before it."""

    def __init__(self, scene: RetentionStage, *, is_enabled: bool = True) -> None:
        self.scene = scene
        self.name = f"a-{scene.topic}"
        self.asked = 0
        self.gives_up: dict[int, int] = {}  # records, up to where
        self.fails: dict[int, Exception] = {}
        self.moves: dict[int, int] = {}  # the sink that is altered, by somebody else, to where
        self.is_locked: list[bool] = []
        self.lock = threading.Lock()
        given = {**SETTINGS, "bootstrap.servers": scene.bootstrap, "delete.committed.enabled": str(is_enabled).lower()}
        settings = WorkerSettings(WorkerConfig(given), "http://w:1", "me")
        self.offsets = SinkOffsets(settings, class_of, lambda connector, generation: None, self.lock)

    def lead(self, command: ConnectorCommand) -> ClusterSnapshot:
        self.asked += 1
        self.is_locked.append(self.lock.locked())
        if self.asked in self.gives_up:
            self.scene.give_up(self.gives_up[self.asked])
        if self.asked in self.moves:
            self.scene.commit("a", self.moves[self.asked])
        if self.asked in self.fails:
            raise self.fails[self.asked]
        return self.scene.leader.submit(command).result()

    def to(self, offset: int, sink: str = "a") -> str:
        return self.offsets.alter(f"{sink}-{self.scene.topic}", [self.place(offset)], self.lead)

    def reset(self) -> str:
        return self.offsets.reset(self.name, self.lead)

    def create(self, name: str, offset: int) -> None:
        config = {"connector.class": "FileStreamSink", "topics": self.scene.topic}
        command = PutConnector(f"{name}-{self.scene.topic}", config, is_create=True)
        self.offsets.create(command, [self.place(offset)], self.lead)

    def place(self, offset: int) -> ConnectorOffset:
        where = {"kafka_topic": self.scene.topic, "kafka_partition": 0}
        return ConnectorOffset(where, {"kafka_offset": offset})

    def committed(self, name: str) -> int | None:
        group = GroupOffsets({"bootstrap.servers": self.scene.bootstrap}, f"connect-{name}-{self.scene.topic}")
        return group.read().get(TopicPartition(self.scene.topic, 0))


@pytest.fixture
def alteration(kafka: EmbeddedKafka) -> Iterator[Alteration]:
    writer = LogWriter(kafka.bootstrap_servers)
    yield Alteration(RetentionStage(writer))
    writer.close()


def test_offset_of_kept_records_can_be_altered_to(alteration: Alteration) -> None:
    assert "have been altered" in alteration.to(3)
    assert alteration.committed("a") == 3
    assert alteration.is_locked == [False, True, True]


@pytest.mark.parametrize("question", [1, 2, 3])
def test_alteration_is_refused_when_its_records_are_given_up_meanwhile(alteration: Alteration, question: int) -> None:
    alteration.gives_up[question] = 5
    with pytest.raises(BadRequestError, match="its log, which begins at 5"):
        alteration.to(4)
    assert alteration.committed("a") == 8


def test_former_offsets_are_restored_when_a_written_alteration_is_refused(alteration: Alteration) -> None:
    alteration.gives_up[3] = 5
    with pytest.raises(
        BadRequestError, match=r"its log, which begins at 5 and ends at 10\. The former offsets were put back"
    ):
        alteration.to(4)
    assert alteration.is_locked == [False, True, True, True]


@pytest.mark.parametrize("question", [1, 2, 3])
def test_records_given_up_by_another_worker_count_when_retention_is_off_here(
    alteration: Alteration, question: int
) -> None:
    """Their files differ: who gave up records may still be about to delete them."""
    alteration.scene.give_up(2)
    here = Alteration(alteration.scene, is_enabled=False)
    here.gives_up[question] = 5
    with pytest.raises(BadRequestError, match="its log, which begins at 5"):
        here.to(4)
    assert here.committed("a") == 8


def test_log_is_checked_once_when_no_records_were_ever_given_up(alteration: Alteration) -> None:
    here = Alteration(alteration.scene, is_enabled=False)
    assert "have been altered" in here.to(3)
    assert here.asked == 2


def test_refused_alteration_leaves_a_sink_without_offsets_without_offsets(alteration: Alteration) -> None:
    alteration.scene.sink("c")
    alteration.gives_up[3] = 5
    with pytest.raises(BadRequestError, match="The former offsets were put back"):
        alteration.to(4, "c")
    assert alteration.committed("c") is None


@pytest.mark.parametrize("left", [NotLeadingError(), ElsewhereError(LEADER, "http://w:2")])
def test_former_offsets_are_not_restored_when_another_worker_may_lead(alteration: Alteration, left: Exception) -> None:
    alteration.gives_up[3], alteration.fails[4] = 5, left
    with pytest.raises(BadRequestError, match=rf"begins at 5 .*not put back.*{alteration.scene.topic}-0 at 4.*again"):
        alteration.to(4)
    assert alteration.committed("a") == 4


def test_former_offsets_are_not_restored_when_offsets_were_changed_meanwhile(alteration: Alteration) -> None:
    alteration.gives_up[3], alteration.moves[4] = 5, 6
    with pytest.raises(BadRequestError, match=r"not put back, .*changed in the meantime"):
        alteration.to(4)
    assert alteration.committed("a") == 6


def test_former_offsets_are_not_restored_when_their_records_are_given_up(alteration: Alteration) -> None:
    alteration.fails[3], alteration.gives_up[4] = BadRequestError("It was resumed"), 9
    with pytest.raises(BadRequestError, match=r"It was resumed\. .*not put back, .*may already be deleted"):
        alteration.to(9)
    assert alteration.committed("a") == 9


def test_former_offsets_are_restored_when_a_reset_fails(alteration: Alteration) -> None:
    alteration.fails[3] = ConflictError("Wait.")
    with pytest.raises(ConflictError, match=r"Wait\. The former offsets were put back"):
        alteration.reset()
    assert alteration.committed("a") == 8


@pytest.mark.parametrize("left", [NotLeadingError(), ElsewhereError(LEADER, "http://w:2")])
def test_alteration_is_a_conflict_when_another_worker_has_become_leader(
    alteration: Alteration, left: Exception
) -> None:
    alteration.fails = {3: left, 4: left}
    with pytest.raises(ConflictError, match=r"Another worker leads by now.* at 4") as raised:
        alteration.to(4)
    assert not isinstance(raised.value, NotLeadingError)  # that says that nothing was changed: it is sent once more
    assert str(left) not in str(raised.value)


@pytest.mark.parametrize("question", [1, 2, 3])
def test_sink_is_not_created_at_an_offset_that_was_given_up_meanwhile(alteration: Alteration, question: int) -> None:
    alteration.gives_up[question] = 5
    with pytest.raises(BadRequestError, match="its log, which begins at 5"):
        alteration.create("b", 4)
    assert f"b-{alteration.scene.topic}" not in alteration.scene.leader.snapshot.connectors
    assert alteration.committed("b") is None


def test_sink_is_created_at_its_initial_offsets(alteration: Alteration) -> None:
    alteration.create("b", 4)
    assert alteration.committed("b") == 4
    assert f"b-{alteration.scene.topic}" in alteration.scene.leader.snapshot.connectors
