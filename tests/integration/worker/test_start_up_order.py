"""The executor's part of the start-up order (architecture.md, steps 5 to 8), on a real broker.

Each step left out, or moved, fails a test here. `Gate` is the worker: it admits, and looks at the broker meanwhile.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.transactions import TransactionAdmin
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.storage.offset_topic import OffsetReader, stored
from fencepost.task.channel.message import Admission, TaskReport
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.source.runner import SourceRunner
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import CommitUnknownError, TransactionalWriter, WriterFencedError
from support.proxy import KafkaProxy
from support.task_spec import lone_spec

PLUGINS = str(Path(__file__).parent / "plugins")


class Gate:
    """Answers admissions, as a worker would: offsets are read once the answer is yes."""

    def __init__(self, bootstrap: str, spec: TaskSpec, transactions: TransactionAdmin) -> None:
        self._spec = spec
        self._reader = OffsetReader({"bootstrap.servers": bootstrap}, spec.output.offsets_topic)
        self._transactions = transactions
        self.is_open = True
        self.asked: list[str] = []
        self.reports: list[TaskReport] = []
        self.at_each: Callable[[], None] = lambda: None

    def admit(self, spec: TaskSpec, *, wants_offsets: bool = True) -> Admission:
        assert spec.output.transactional_id is not None
        known = self._transactions.describe([spec.output.transactional_id])
        self.asked.append(known[spec.output.transactional_id].state if known else "unknown")
        self.at_each()
        if not self.is_open:
            return Admission(False, "a newer generation")
        found = stored(self._reader.read_known(spec.connector, 30))
        return Admission(True, "", tuple((dict(p or {}), dict(o)) for p, o in found))

    @property
    def states(self) -> list[str]:
        return [report.state for report in self.reports]


class StartUpStage:
    """One task, its gate, and what is seen of it from outside."""

    def __init__(self, bootstrap: str, via: str, topic: str, directory: Path) -> None:
        self.topic = topic
        self.bootstrap = bootstrap
        self.admin = Admin({"bootstrap.servers": bootstrap})
        self.transactions = TransactionAdmin({"bootstrap.servers": bootstrap})
        self.admin.topics.create(topic, partitions=1, replication=1)
        self.admin.topics.create(f"{topic}-offsets", partitions=1, replication=1, configs={"cleanup.policy": "compact"})
        self.witness = directory / "starts"
        self.id = f"g-{topic}-0"
        self.spec = lone_spec(
            topic,
            {"connector.class": "worker_suite.CountingConnector", "witness": str(self.witness)},
            transactional_id=self.id,
            producer_conf=transactional_conf({"bootstrap.servers": via}, self.id).conf,
            offsets_topic=f"{topic}-offsets",
            plugins=PLUGINS,
            lanes=1,  # taking a second producer is a replacement, which would be counted among the others
        )
        self.gate = Gate(bootstrap, self.spec, self.transactions)
        self.runner = SourceRunner(self.spec, self.gate.admit, self.gate.reports.append)

    def rival(self) -> TransactionalWriter:
        """Another holder of the id, not opened."""
        return TransactionalWriter(transactional_conf({"bootstrap.servers": self.bootstrap}, self.id).conf, self.id)

    def visible(self) -> list[bytes | None]:
        return [o.value for o in CommittedReader(self.bootstrap, [self.topic]).read_all(20)]

    def committed(self) -> list[int]:
        return [int(value or b"0") for value in self.visible() if value != b"zombie"]

    def starts(self) -> int:
        return len(self.witness.read_text().splitlines()) if self.witness.exists() else 0

    def until_running(self) -> None:
        self.runner.thread.start()
        eventually(lambda: self.gate.states[-1] == "RUNNING" and self.committed(), within_s=60)

    def ends_as(self, state: str) -> None:
        eventually(lambda: self.gate.states[-1] == state, within_s=40)
        self.runner.thread.join(60)


@pytest.fixture
def make(kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Iterator[Callable[..., StartUpStage]]:
    made: list[StartUpStage] = []

    def scene(via: str | None = None) -> StartUpStage:
        made.append(StartUpStage(kafka.bootstrap_servers, via or kafka.bootstrap_servers, topic_name, tmp_path))
        return made[-1]

    yield scene
    for each in made:
        each.runner.control.stop()
        if each.runner.thread.ident is not None:
            each.runner.thread.join(60)
        each.transactions.close()


@pytest.fixture
def scene(make: Callable[..., StartUpStage]) -> StartUpStage:
    return make()


def test_steps_5_and_6_the_predecessor_is_fenced_before_admission_is_asked_for(scene: StartUpStage) -> None:
    predecessor = scene.rival()
    predecessor.open()
    predecessor.send(scene.topic, b"zombie")
    predecessor.flush()
    assert scene.transactions.describe([scene.id])[scene.id].state == "Ongoing"
    scene.until_running()
    assert scene.gate.asked[0] not in ("Ongoing", "unknown")
    with pytest.raises((WriterFencedError, CommitUnknownError)):
        predecessor.commit()
    predecessor.close()
    assert b"zombie" not in scene.visible()


def test_step_6_a_refused_start_produces_nothing_and_starts_no_task(scene: StartUpStage) -> None:
    scene.gate.is_open = False
    scene.runner.thread.start()
    scene.ends_as("ABANDONED")
    assert scene.starts() == 0
    assert scene.committed() == []
    assert scene.gate.asked != ["unknown"], "admission was asked for before init_transactions"


def test_step_7_the_position_is_read_after_the_fence(scene: StartUpStage) -> None:
    """Records that the predecessor commits up to the fence are not sent again: the offset read after it counts."""
    scene.until_running()
    scene.runner.control.stop()
    scene.ends_as("STOPPED")
    before = scene.committed()
    successor = SourceRunner(scene.spec, scene.gate.admit, scene.gate.reports.append)
    successor.thread.start()
    eventually(lambda: len(scene.committed()) > len(before) + 20, within_s=60)
    successor.control.stop()
    successor.thread.join(60)
    found = scene.committed()
    assert found == list(range(1, len(found) + 1))


def test_step_8_the_task_is_started_only_once_it_is_admitted(scene: StartUpStage) -> None:
    seen: list[int] = []
    scene.gate.at_each = lambda: seen.append(scene.starts())
    scene.until_running()
    assert seen[0] == 0
    assert scene.starts() == 1


def test_a_paused_task_initialises_nothing_until_it_is_resumed(make: Callable[..., StartUpStage]) -> None:
    scene = make()
    scene.runner.control.pause()
    scene.runner.thread.start()
    eventually(lambda: scene.gate.states == ["PAUSED"])
    assert scene.transactions.describe([scene.id]) == {}
    scene.runner.control.resume()
    eventually(lambda: scene.gate.states[-1] == "RUNNING", within_s=60)


def test_a_fenced_task_that_is_no_longer_current_leaves_its_successor_alone(scene: StartUpStage) -> None:
    scene.until_running()
    scene.gate.is_open = False
    rival = scene.rival()
    rival.open()
    scene.ends_as("ABANDONED")
    rival.send(scene.topic, b"zombie")
    rival.commit()
    rival.close()
    found = scene.committed()
    assert found == list(range(1, len(found) + 1))


def test_a_fenced_task_that_is_still_current_starts_and_is_admitted_again(scene: StartUpStage) -> None:
    scene.until_running()
    asked = len(scene.gate.asked)
    rival = scene.rival()
    rival.open()
    rival.close()
    # More than once, perhaps: an init that finds a transaction open fences it, and then comes again.
    eventually(lambda: scene.starts() >= 2, within_s=60)
    assert len(scene.gate.asked) >= asked + 2, "before it initialises again, and after"
    count = len(scene.committed())
    eventually(lambda: len(scene.committed()) > count + 20, within_s=60)
    scene.runner.control.stop()
    scene.ends_as("STOPPED")
    found = scene.committed()
    assert found == list(range(1, len(found) + 1))


def test_a_struck_task_is_admitted_again_and_continues(kafka: EmbeddedKafka, make: Callable[..., StartUpStage]) -> None:
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        scene = make(proxy.bootstrap_servers)
        scene.until_running()
        asked = len(scene.gate.asked)
        proxy.reset_all()
        eventually(lambda: len(scene.gate.asked) > asked, within_s=60)
        count = len(scene.committed())
        eventually(lambda: len(scene.committed()) > count + 20, within_s=40)
        scene.runner.control.stop()
        scene.ends_as("STOPPED")
        found = scene.committed()
        assert found == list(range(1, len(found) + 1))


def test_a_struck_zombie_is_refused_and_produces_nothing_more(
    kafka: EmbeddedKafka, make: Callable[..., StartUpStage]
) -> None:
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        scene = make(proxy.bootstrap_servers)
        scene.until_running()
        frozen: list[Any] = []
        scene.gate.is_open = False
        scene.gate.at_each = lambda: frozen.append(scene.committed())
        proxy.reset_all()
        scene.ends_as("ABANDONED")
        assert scene.committed() == frozen[0]
        assert "FAILED" not in scene.gate.states


def test_e7_offsets_are_copied_before_a_start_says_that_it_has_ended(scene: StartUpStage) -> None:
    """The worker takes copies only of starts that have not ended; here each takes it a moment."""
    copied: list[tuple[bytes | None, str]] = []

    def copy(copies: Sequence[OffsetCopy]) -> None:
        threading.Event().wait(0.3)
        copied.extend((one.value, scene.gate.states[-1]) for one in copies)

    spec = replace(scene.spec, output=replace(scene.spec.output, copies_offsets=True))
    scene.runner = SourceRunner(spec, scene.gate.admit, scene.gate.reports.append, copy)
    scene.until_running()
    scene.runner.control.stop()
    scene.ends_as("STOPPED")
    assert {state for _, state in copied} == {"RUNNING"}
    assert json.loads(copied[-1][0] or b"") == {"next": scene.committed()[-1]}
