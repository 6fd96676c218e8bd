"""When a connector is started, and what it publishes."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fencepost.api import ConfigData, ConfigProvider, RetriableError, SourceConnector, SourceTask
from fencepost.cluster.errors import BadRequestError
from fencepost.config.cluster import ALL_OPEN
from fencepost.config.reference import RawConfig
from fencepost.reference import LookedUp, Providers
from fencepost.storage import records
from fencepost.storage.change import Assignment, TargetState, WorkerAssignment
from fencepost.storage.status_topic import State
from fencepost.testing import eventually
from fencepost.worker.plan import class_of
from fencepost.worker.supervision.automatic_restart import RestartSchedule
from fencepost.worker.supervision.connector import ConnectorHost, ConnectorServices
from support.memory_topic import MemoryTopic
from support.no_exception import no_exceptions

CONFIG = {"name": "c", "connector.class": "Datagen", "topic": "t", "fields": "id:sequence"}


class Board:
    def __init__(self) -> None:
        self.said: list[State] = []
        self.plans: list[RestartSchedule | None] = []
        self.traces: list[str | None] = []
        self.failures: list[str] = []

    def connector(self, name: str, state: State, trace: str | None = None) -> None:
        self.said.append(state)
        self.traces.append(trace)

    def failed(self, name: str, trace: str, plan: RestartSchedule | None) -> None:
        self.said.append(State.FAILED)
        self.plans.append(plan)
        self.failures.append(trace)


class Planned(SourceConnector):
    """Plans with Python's values."""

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        return [{"topic": "t", "number": 7, "fast": True, "file": Path("/a"), "ports": [1, 2], "none": None}]


class Slow(SourceConnector):
    """Does not return from where it is told to wait."""

    task = SourceTask
    waits_in = ""
    go: ClassVar[threading.Event] = threading.Event()

    def start(self) -> None:
        self._wait("start")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        self._wait("task_configs")
        return [{}]

    def stop(self) -> None:
        self._wait("stop")

    def _wait(self, where: str) -> None:
        if where == type(self).waits_in:
            self.go.wait(60)


class Broken(SourceConnector):
    """Does not start before it is mended."""

    task = SourceTask
    is_mended = False

    def start(self) -> None:
        if not type(self).is_mended:
            raise OSError("no such table")


class Exiting(SourceConnector):
    """Raises what is no exception, where it is told to."""

    task = SourceTask
    error: ClassVar[BaseException]
    exits_in = ""

    def start(self) -> None:
        self._maybe_exit("start")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        self._maybe_exit("task_configs")
        return [{}]

    def stop(self) -> None:
        self._maybe_exit("stop")

    def _maybe_exit(self, where: str) -> None:
        if where == self.exits_in:
            raise self.error


class Unknowing(SourceConnector):
    """Cannot plan as long as its outside world does not answer."""

    task = SourceTask
    answers: ClassVar[threading.Event] = threading.Event()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if not self.answers.is_set():
            raise RetriableError("the world does not answer")
        return [{"topic": "found"}]


class Remarking(SourceConnector):
    """Has something to say."""

    task = SourceTask
    all: ClassVar[list["Remarking"]] = []

    def start(self) -> None:
        self.all.append(self)
        self.context.remark(str(len(self.all)))


class Hosted(SourceConnector):
    """Starts in another process, whose calls can be ended; only its second start returns by itself."""

    task = SourceTask
    begun: ClassVar[threading.Event] = threading.Event()
    starts: ClassVar[list["Hosted"]] = []

    def __init__(self, properties: Mapping[str, object]) -> None:
        super().__init__(properties)
        self.is_ended = threading.Event()

    def start(self) -> None:
        self.starts.append(self)
        self.begun.set()
        if len(self.starts) == 1:
            assert self.is_ended.wait(60)

    def end_calls(self) -> None:
        self.is_ended.set()

    def figures(self) -> list[list[str | float]]:
        return [["starts", "", float(len(self.starts))]]


OWN = {
    "Hosted": Hosted,
    "Planned": Planned,
    "Slow": Slow,
    "Broken": Broken,
    "Unknowing": Unknowing,
    "Remarking": Remarking,
    "Exiting": Exiting,
}


PROVIDERS = {"config.providers": "own", "config.providers.own.class": "Own"}


class OwnProvider(ConfigProvider):
    """Has the values of a stage."""

    def __init__(self, stage: "Stage", settings: Mapping[str, str]) -> None:
        super().__init__(settings)
        self._stage = stage

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        if self._stage.is_store_away:
            raise RetriableError("the store is away")
        return ConfigData({key: self._stage.values[key] for key in keys}, self._stage.ttl_ms)


class EagerServices(ConnectorServices):
    """Retries after a moment instead of a second."""

    def take_turn(self, connector: str, act: Callable[[], None], in_s: float = 0.0) -> "Future[None]":
        return super().take_turn(connector, act, min(in_s, 0.005))


class Stage:
    """A host, and a leader that takes its time."""

    def __init__(self) -> None:
        self.board = Board()
        self.published: list[tuple[str, Future[None]]] = []
        services = EagerServices(
            lambda config: OWN.get(str(config["connector.class"])) or class_of(config),
            self._put,
            self.board,  # type: ignore[arg-type]
            lambda name: [],
            self._look_up,
            lambda cluster_id: ALL_OPEN,
        )
        self.values = {"FENCEPOST_TOPIC": "found"}
        self.ttl_ms: int | None = None
        self.is_store_away = False
        self.host = ConnectorHost("me", services)
        self.config = MemoryTopic()
        self.config.builder.assigned.put(Assignment(1, (WorkerAssignment("me", "http://w:1", ("c", "slow")),)))

    def _put(self, connector: str, configs: Sequence[Any]) -> "Future[Any]":
        answer: Future[None] = Future()
        self.published.append((str(configs[0].get("topic", connector)), answer))
        self.configs = list(configs)
        return answer

    def _look_up(self, config: RawConfig) -> LookedUp:
        providers = Providers(PROVIDERS, lambda kind, name: partial(OwnProvider, self))  # type: ignore[arg-type]
        return providers.look_up(config)

    def put_slow(self, **more: str) -> None:
        self._write("slow", {"name": "slow", "connector.class": "Slow", **more})

    def put(self, **more: str) -> None:
        self._write("c", {**CONFIG, **more})

    def _write(self, name: str, config: dict[str, str]) -> None:
        self.host.changed(self.config.write(records.connector_config(name, config)))

    @property
    def topics(self) -> list[str]:
        return [topic for topic, _ in self.published]


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.host.stop()


def test_task_configs_are_published_one_set_at_a_time_and_the_newest_last(stage: Stage) -> None:
    stage.put(topic="first")
    eventually(lambda: stage.topics == ["first"], within_s=60)
    stage.put(topic="second")
    stage.put(topic="third")
    eventually(lambda: stage.host.services.startups["successes"] == 3, within_s=60)
    assert stage.topics == ["first"], "a second request could arrive before the first"
    stage.published[0][1].set_exception(ConnectionError("late"))
    eventually(lambda: stage.topics == ["first", "third"], within_s=60)
    stage.published[1][1].set_result(None)


def test_connector_restarts_when_an_unchanged_config_is_stored_again(stage: Stage) -> None:
    stage.put()
    eventually(lambda: stage.board.said == [State.RUNNING], within_s=60)
    stage.host.changed(stage.config.snapshot)
    stage.put()
    eventually(lambda: stage.board.said == [State.RUNNING] * 2, within_s=60)
    assert stage.host.services.startups["attempts"] == 2


def test_task_configs_are_published_as_text_when_the_connector_returns_no_text(stage: Stage) -> None:
    stage.put(**{"connector.class": "Planned"})
    eventually(lambda: stage.topics == ["t"], within_s=60)
    [config] = stage.configs
    config = {key: value for key, value in config.items() if key != "task.class"}
    assert config == {"topic": "t", "number": "7", "fast": "true", "file": "/a", "ports": "1,2", "none": None}


def test_connector_that_cannot_plan_yet_is_asked_again_instead_of_failing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Unknowing, "answers", threading.Event())
    stage.put(**{"connector.class": "Unknowing"})
    eventually(lambda: caplog.text.count("the world does not answer") >= 3, within_s=60)
    assert stage.topics == [], "an empty plan would have stopped the tasks that there are"
    Unknowing.answers.set()
    eventually(lambda: stage.topics == ["found"], within_s=60)
    assert stage.board.said == [State.RUNNING]


def test_remark_of_a_connector_is_in_its_status_until_withdrawn_or_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Remarking, "all", [])
    stage.put(**{"connector.class": "Remarking"})
    eventually(lambda: stage.board.traces == [None, "1"], within_s=60)
    [first] = Remarking.all
    first.context.remark("1")
    first.context.remark(None)
    eventually(lambda: stage.board.traces == [None, "1", None], within_s=60)
    stage.put(**{"connector.class": "Remarking", "topic": "other"})
    eventually(lambda: stage.board.traces[3:] == [None, "2"], within_s=60)
    first.context.remark("too late")
    Remarking.all[1].context.remark("last")
    eventually(lambda: stage.board.traces[5:] == ["last"], within_s=60)
    assert set(stage.board.said) == {State.RUNNING}


def test_error_raised_after_a_connectors_end_does_not_fail_its_successor(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Java connector does whose start in another host is ended, because a new config has come."""
    monkeypatch.setattr(Remarking, "all", [])
    stage.put(**{"connector.class": "Remarking"})
    eventually(lambda: stage.board.traces == [None, "1"], within_s=60)
    stage.put(**{"connector.class": "Remarking", "topic": "other"})
    eventually(lambda: stage.board.traces[2:] == [None, "2"], within_s=60)
    first, second = Remarking.all
    first.context.raise_error(ValueError("too late"))
    second.context.remark("last")
    eventually(lambda: stage.board.traces[4:] == ["last"], within_s=60)
    assert set(stage.board.said) == {State.RUNNING}
    second.context.raise_error(ValueError("its own"))
    eventually(lambda: State.FAILED in stage.board.said, within_s=60)


def test_unsendable_task_configs_fail_the_connector_and_do_not_block_later_ones(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file name that is not UTF-8, for one: Python has it with surrogates, and JSON does not take them."""
    sends = stage._put

    def put(connector: str, configs: Sequence[Any]) -> "Future[Any]":
        if configs[0]["topic"] == "bad":
            raise TypeError("str is not valid UTF-8: surrogates not allowed")
        return sends(connector, configs)

    monkeypatch.setattr(stage.host.services, "put_task_configs", put)
    stage.put(topic="bad")
    eventually(lambda: stage.board.said[-1:] == [State.FAILED], within_s=60)
    stage.put(topic="good")
    eventually(lambda: stage.topics == ["good"], within_s=60)


@pytest.mark.parametrize("where", ["start", "task_configs", "stop"])
def test_connector_that_does_not_return_delays_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(Slow, "waits_in", where)
    monkeypatch.setattr(Slow, "go", threading.Event())
    try:
        stage.put_slow()
        if where == "stop":
            eventually(lambda: State.RUNNING in stage.board.said, within_s=60)
            stage.put_slow(again="1")
        stage.put()
        eventually(lambda: "t" in stage.topics, within_s=60)
    finally:
        Slow.go.set()


@pytest.mark.parametrize("by", ["config", "restart", "delete"])
def test_a_call_in_another_process_ends_when_the_connector_is_to_stop(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(Hosted, "begun", threading.Event())
    monkeypatch.setattr(Hosted, "starts", [])
    stage.put(**{"connector.class": "Hosted"})
    assert Hosted.begun.wait(60)
    assert stage.host.figures() == {"c": [["starts", "", 1.0]]}
    if by == "restart":
        assert stage.host.restart("c").wait(60)
    elif by == "delete":
        stage.host.changed(stage.config.write(records.connector_removed("c")))
        eventually(lambda: stage.host.figures() == {}, within_s=60)
        return
    else:
        stage.put(**{"connector.class": "Hosted", "topic": "other"})
    eventually(lambda: len(Hosted.starts) == 2, within_s=60)


_RESTART = {"connector.class": "Broken", "errors.restart.enabled": "true"}


def test_start_does_not_hang_when_the_connector_stops_during_a_config_look_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hosted, "starts", [])
    looks_up, go, look_up = threading.Event(), threading.Event(), stage._look_up

    def slow(config: RawConfig) -> LookedUp:
        looks_up.set()
        assert go.wait(60)
        return look_up(config)

    monkeypatch.setattr(stage.host.services, "look_up", slow)
    stage.put(**{"connector.class": "Hosted"})
    assert looks_up.wait(60)
    stage.put(topic="other", **{"connector.class": "Hosted"})
    go.set()
    eventually(lambda: len(Hosted.starts) == 2, within_s=120)
    assert State.FAILED not in stage.board.said, "its first start was not ended"


def test_failed_connector_is_restarted_automatically_until_it_starts(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Broken, "is_mended", False)
    stage.put(**_RESTART, **{"errors.restart.backoff.initial.ms": "5"})
    eventually(lambda: len(stage.board.plans) >= 3, within_s=60, every_s=0.001)
    assert [plan.made for plan in stage.board.plans[:3] if plan] == [0, 1, 2]
    monkeypatch.setattr(Broken, "is_mended", True)
    eventually(lambda: stage.board.said[-2:] == [State.RESTARTING, State.RUNNING], within_s=60)
    assert stage.host.services.startups["restarts"] == stage.host.services.startups["failures"]


@pytest.mark.parametrize("by", ["restart", "pause", "config"])
def test_automatic_restart_is_cancelled_when_a_user_changes_the_connector(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    later: list[Any] = []
    take_turn = stage.host.services.take_turn
    monkeypatch.setattr(
        stage.host.services,
        "take_turn",
        lambda name, act, in_s=0.0: later.append(act) if in_s else take_turn(name, act),
    )
    monkeypatch.setattr(Broken, "is_mended", False)
    stage.put(**_RESTART)
    eventually(lambda: len(later) == 1, within_s=60)
    if by == "restart":
        assert stage.host.restart("c").wait(60)
    elif by == "pause":
        stage.host.changed(stage.config.write(records.target_state("c", TargetState.PAUSED)))
    else:
        stage.put(**_RESTART)
    take_turn("c", lambda: None).result(60)
    said = list(stage.board.said)
    take_turn("c", later[0]).result(60)
    assert stage.board.said == said
    if by != "pause":
        assert [plan.made for plan in stage.board.plans if plan] == [0, 0]


@pytest.mark.parametrize("refers", [{"topic": "${file:/secrets:topic}"}, {"connector.class": "${own:FENCEPOST_TOPIC}"}])
def test_connector_with_an_unresolvable_reference_fails(stage: Stage, refers: dict[str, str]) -> None:
    """Another worker of the group, Kafka Connect's for one, may have taken the config."""
    stage.put(**refers)
    eventually(lambda: stage.board.said == [State.FAILED], within_s=60)
    assert stage.published == []


def test_task_configs_keep_the_references_of_a_connector(stage: Stage) -> None:
    stage.put(topic="${own:FENCEPOST_TOPIC}")
    eventually(lambda: len(stage.published) == 1, within_s=60)
    assert [config["topic"] for config in stage.configs] == ["${own:FENCEPOST_TOPIC}"]


def test_a_connector_starts_when_the_store_of_its_values_is_back(stage: Stage) -> None:
    stage.is_store_away = True
    stage.put(topic="${own:FENCEPOST_TOPIC}")
    eventually(lambda: stage.board.said[:2] == [State.UNASSIGNED, State.UNASSIGNED], within_s=60)
    assert "cannot be looked up now: the store is away" in str(stage.board.traces[0])
    stage.is_store_away = False
    eventually(lambda: stage.board.said[-1:] == [State.RUNNING], within_s=60)


@pytest.mark.parametrize(("action", "is_restarted"), [("restart", True), ("none", False)])
def test_a_connector_is_restarted_when_its_values_expire(stage: Stage, action: str, is_restarted: bool) -> None:
    stage.ttl_ms = 60_000  # time passes quickly on this stage
    stage.put(topic="${own:FENCEPOST_TOPIC}", **{"config.action.reload": action})
    eventually(lambda: State.RUNNING in stage.board.said, within_s=60)
    if is_restarted:
        eventually(lambda: stage.board.said[:4] == [State.RUNNING, State.RESTARTING] * 2, within_s=60)
    else:
        stage.host.restart("c").wait(60)
        assert stage.board.said == [State.RUNNING, State.RESTARTING, State.RUNNING]


def test_a_connector_goes_on_with_expired_values_while_their_store_is_away(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    look_up, asked = stage.host.services.look_up, [0]

    def away_three_times(config: RawConfig) -> LookedUp:
        asked[0] += 1
        stage.is_store_away = 2 <= asked[0] <= 4
        return look_up(config)

    stage.host.services.look_up = away_three_times
    stage.ttl_ms = 60_000
    stage.put(topic="${own:FENCEPOST_TOPIC}")
    eventually(lambda: stage.board.said[:3] == [State.RUNNING, State.RESTARTING, State.RUNNING], within_s=60)
    assert caplog.text.count("connector c goes on with values that have expired") == 3


@pytest.mark.parametrize("where", ["start", "task_configs"])
@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
def test_base_exception_fails_the_connector_with_its_trace(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: BaseException, where: str
) -> None:
    monkeypatch.setattr(Exiting, "error", error, raising=False)
    monkeypatch.setattr(Exiting, "exits_in", where)
    stage.put(**{"connector.class": "Exiting"})
    eventually(lambda: State.FAILED in stage.board.said, within_s=60)
    assert type(error).__name__ in stage.board.failures[-1]


@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
def test_connector_starts_again_when_its_stop_raises_a_base_exception(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(Exiting, "error", error, raising=False)
    monkeypatch.setattr(Exiting, "exits_in", "stop")
    stage.put(**{"connector.class": "Exiting"})
    eventually(lambda: stage.board.said == [State.RUNNING], within_s=60)
    stage.put(**{"connector.class": "Exiting", "more": "1"})
    eventually(lambda: stage.board.said == [State.RUNNING] * 2, within_s=60)


def test_task_configs_that_the_leader_refuses_fail_the_connector(stage: Stage) -> None:
    stage.put()
    eventually(lambda: len(stage.published) == 1, within_s=60)
    stage.published[0][1].set_exception(BadRequestError("task-c-0 takes 2,000,000 bytes"))
    eventually(lambda: stage.board.said[-1:] == [State.FAILED], within_s=60)
    assert len(stage.published) == 1
