"""The worker's part of the start-up order (architecture.md, steps 2 to 4, 6 and 7), over a real config topic."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from fencepost.cluster.errors import BadRequestError, ConflictError, FencingRefusedError, NotReadyError
from fencepost.config.worker import WorkerConfig
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.ledger.carried import carried_key
from fencepost.storage import records
from fencepost.storage.change import Assignment, TargetState, TaskId, WorkerAssignment
from fencepost.storage.config_topic import ConfigTopic, TopicWriter
from fencepost.storage.offset_topic import encode
from fencepost.task.channel.message import Admission, AdmissionRequest
from fencepost.testing import eventually
from fencepost.transaction import TransactionalWriter
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.admission import Admissions
from fencepost.worker.supervision.task.handle import HandleState, StartIdentity, TaskHandle
from fencepost.worker.supervision.task.specs import AbandonedError, AwayError, Preparation

TASK = TaskId("c", 0)
STRING = "org.apache.kafka.connect.storage.StringConverter"


class PreparationStage:
    """A config topic with one connector of one task, assigned to us, and the parts that start it."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "config.storage.topic": f"{name}-configs",
            "offset.storage.topic": f"{name}-offsets",
            "status.storage.topic": f"{name}-status",
            "offset.storage.replication.factor": "1",
            "offset.storage.partitions": "2",
            "key.converter": STRING,
            "value.converter": STRING,
            "exactly.once.source.support": "enabled",
        }
        self.settings = WorkerSettings(WorkerConfig(properties), "http://w:1", "me")
        self.admin = Admin(self.settings.admin_conf())
        for topic in (f"{name}-configs", f"{name}-offsets"):
            self.admin.topics.create(topic, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
        self.offsets_topic = f"{name}-offsets"
        self.topic = ConfigTopic(self.settings.reader_conf(), f"{name}-configs")
        self.writer = TopicWriter(self.settings.producer_conf(), f"{name}-configs")
        self.topic.start(30)
        self.config = {"name": "c", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
        self.write(records.connector_config("c", self.config))
        self.assign("me")
        self.generation = self.new_generation()
        self.handle = TaskHandle(StartIdentity(TASK, self.generation, "i"), "STARTED")
        self.on_fence: Callable[[], None] = self.record_count
        self.is_stopping = threading.Event()

    def write(self, *encoded: records.Encoded) -> None:
        self.writer.write(encoded, 20)

    def assign(self, incarnation: str) -> None:
        own = WorkerAssignment(incarnation, "http://w:1", ("c",), (TASK,))
        self.write(records.assignment(Assignment(1, (own,))))

    def new_generation(self) -> int:
        self.write(records.task_config(TASK, {"file": "f"}), records.tasks_commit("c", 1))
        return self.topic.read_to_end(20).commit_offsets["c"]

    def record_count(self) -> None:
        self.write(records.task_count("c", 1))

    def prepare(self) -> Any:
        def fence(connector: str) -> "Future[None]":
            done: Future[None] = Future()
            try:
                self.on_fence()
                done.set_result(None)
            except Exception as error:
                done.set_exception(error)
            return done

        own = Preparation(self.settings, fence, self.topic.read_to_end, self.is_stopping, lambda *_: None)
        return own.prepare(self.handle)

    def hosted(self) -> Admissions:
        """The task has been handed to a slot, which asks for admission."""
        self.record_count()
        self.handle.state = HandleState.HOSTED
        return Admissions(self.settings, self.topic.read_to_end, {TASK: self.handle}.get)

    def admit(
        self, admissions: Admissions, incarnation: str = "i", *, wants_offsets: bool = True, ledger: str = ""
    ) -> Admission:
        request = AdmissionRequest(TASK.connector, TASK.task, self.generation, incarnation, wants_offsets, ledger)
        return Admission.from_json(admissions.admit(request.to_json()))

    def task_producer(self) -> TransactionalWriter:
        writer = TransactionalWriter(transactional_conf({"bootstrap.servers": self.bootstrap}, "id").conf, self.id)
        writer.open()
        return writer

    @property
    def id(self) -> str:
        return f"{self.settings.group_id}-c-0"


@pytest.fixture
def scene(kafka: EmbeddedKafka, topic_name: str) -> Iterator[PreparationStage]:
    own = PreparationStage(kafka.bootstrap_servers, topic_name)
    yield own
    own.topic.stop()
    own.writer.close()


def test_step_2_a_fencing_round_comes_before_the_topic_is_read(scene: PreparationStage) -> None:
    """The round writes the task-count record: read before it, the topic would have none."""
    spec = scene.prepare()
    assert (spec.connector, spec.task, spec.output.transactional_id) == ("c", 0, scene.id)
    assert spec.generation == scene.generation


def test_step_3_task_configs_that_no_task_count_follows_start_nothing(scene: PreparationStage) -> None:
    scene.on_fence = lambda: None
    with pytest.raises(AbandonedError, match="without a task-count record"):
        scene.prepare()


def test_step_3_a_newer_generation_abandons_the_start(scene: PreparationStage) -> None:
    def newer() -> None:
        scene.new_generation()
        scene.record_count()

    scene.on_fence = newer
    with pytest.raises(AbandonedError, match="new set of task configs"):
        scene.prepare()


def test_a_round_that_a_newer_generation_ended_abandons_the_start(scene: PreparationStage) -> None:
    def conflict() -> None:
        raise ConflictError("Fencing failed because new task configurations were generated for the connector")

    scene.on_fence = conflict
    with pytest.raises(AbandonedError):
        scene.prepare()


def test_a_fencing_round_is_repeated_after_a_transient_failure(scene: PreparationStage) -> None:
    causes: list[Exception] = [NotReadyError("no coordinator yet"), KafkaUnavailableError("no broker")]

    def at_last() -> None:
        if causes:
            raise causes.pop()
        scene.record_count()

    scene.on_fence = at_last
    assert scene.prepare().connector == "c"
    assert causes == []


def test_round_that_keeps_failing_is_shown_in_the_status_of_its_start(scene: PreparationStage) -> None:
    def away() -> None:
        raise NotReadyError("no coordinator yet")

    scene.on_fence = away
    with pytest.raises(AwayError, match=r"round of fencing.*no coordinator yet"):
        scene.prepare()


@pytest.mark.parametrize("cause", [FencingRefusedError("Traceback ..."), BadRequestError("no source"), KeyError("bug")])
def test_a_round_that_is_refused_for_good_fails_the_start(scene: PreparationStage, cause: Exception) -> None:
    def refused() -> None:
        raise cause

    scene.on_fence = refused
    with pytest.raises(type(cause)):
        scene.prepare()


def test_step_4_a_connector_s_own_offsets_topic_is_created(scene: PreparationStage) -> None:
    own = f"{scene.offsets_topic}-own"
    scene.write(records.connector_config("c", {**scene.config, "offsets.storage.topic": own}))
    assert scene.prepare().output.offsets_topic == own
    assert scene.admin.topics.partitions(own) == 2
    assert scene.admin.configs.get(own)["cleanup.policy"] == "compact"


def test_step_6_the_current_start_is_admitted(scene: PreparationStage) -> None:
    assert scene.admit(scene.hosted()).is_admitted


@pytest.mark.parametrize("what", ["generation", "revoked", "deleted", "stopped"])
def test_step_6_a_change_written_just_before_admission_counts(scene: PreparationStage, what: str) -> None:
    admissions = scene.hosted()
    if what == "generation":
        scene.new_generation()
        scene.record_count()
    elif what == "revoked":
        scene.assign("another")
    elif what == "deleted":
        scene.write(records.connector_removed("c"))
    else:
        scene.write(records.target_state("c", TargetState.STOPPED))
    answer = scene.admit(admissions)
    assert not answer.is_admitted
    assert answer.reason
    assert answer.offsets == ()


def test_step_6_an_older_start_of_the_same_task_is_refused(scene: PreparationStage) -> None:
    admissions = scene.hosted()
    assert not scene.admit(admissions, "an-older-start").is_admitted
    scene.handle.state = HandleState.STOPPING
    assert not scene.admit(admissions).is_admitted


def test_step_7_offsets_are_read_up_to_the_uncommitted_end(scene: PreparationStage) -> None:
    """Offsets in a transaction that is still open are waited for, not missed."""
    admissions = scene.hosted()
    other = scene.task_producer()
    other.send("t", b"x")
    key, value = encode("c", {"filename": "f"}, {"position": 7})
    other.send(scene.offsets_topic, value, key=key)
    other.flush()
    answers: list[Admission] = []
    asking = threading.Thread(target=lambda: answers.append(scene.admit(admissions)))
    asking.start()
    asking.join(0.7)
    assert asking.is_alive(), "it did not wait for the open transaction"
    other.commit()
    eventually(lambda: answers, within_s=60)
    assert answers[0].offsets == (({"filename": "f"}, {"position": 7}),)
    other.close()


def test_step_7_a_start_gets_the_entries_carried_for_its_ledger(scene: PreparationStage) -> None:
    admissions = scene.hosted()
    other = scene.task_producer()
    for ledger in ("l", "other"):
        other.send(scene.offsets_topic, ledger.encode(), key=carried_key("c", 0, ledger))
    other.commit()
    other.close()
    assert scene.admit(admissions, ledger="l").carried == ((0, b"l"),)
    assert scene.admit(admissions).carried == ()
    admissions.close()


def test_a_start_with_known_offsets_waits_for_no_open_transaction(scene: PreparationStage) -> None:
    admissions = scene.hosted()
    other = scene.task_producer()
    key, value = encode("c", {"filename": "f"}, {"position": 7})
    other.send(scene.offsets_topic, value, key=key)
    other.flush()
    answer = scene.admit(admissions, wants_offsets=False)
    assert (answer.is_admitted, answer.offsets) == (True, ())
    assert not scene.admit(admissions, "an-older-start", wants_offsets=False).is_admitted
    other.abort()
    other.close()


def test_step_7_the_own_topic_comes_first_and_the_worker_s_fills_in(scene: PreparationStage) -> None:
    own = f"{scene.offsets_topic}-own"
    scene.admin.topics.create(own, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
    scene.write(records.connector_config("c", {**scene.config, "offsets.storage.topic": own}))
    scene.generation = scene.new_generation()
    scene.handle.identity = replace(scene.handle.identity, generation=scene.generation)
    admissions = scene.hosted()
    writer = scene.task_producer()
    for topic, partition, position in ((scene.offsets_topic, "a", 1), (scene.offsets_topic, "b", 2), (own, "a", 9)):
        key, value = encode("c", {"filename": partition}, {"position": position})
        writer.send(topic, value, key=key)
    writer.commit()
    writer.close()
    stored = {p["filename"]: o["position"] for p, o in scene.admit(admissions).offsets}
    assert stored == {"a": 9, "b": 2}
    of_connector = admissions.view(scene.topic.read_to_end(20), "c", may_be_missing=True)  # of its context (KIP-618)
    assert {(p or {})["filename"]: o["position"] for p, o in of_connector.offsets} == stored


def test_connector_reads_the_worker_s_offsets_while_its_own_topic_is_missing(scene: PreparationStage) -> None:
    scene.write(records.connector_config("c", {**scene.config, "offsets.storage.topic": f"{scene.offsets_topic}-own"}))
    admissions, writer = scene.hosted(), scene.task_producer()
    key, value = encode("c", {"filename": "a"}, {"position": 1})
    writer.send(scene.offsets_topic, value, key=key)
    writer.commit()
    writer.close()
    view = admissions.view(scene.topic.read_to_end(20), "c", may_be_missing=True)
    assert [(p, o) for p, o in view.offsets] == [({"filename": "a"}, {"position": 1})]
