"""Java connectors on the worker: what is asked where, and what follows when their host ends."""

import math
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import ExactlyOnceSupport, FatalError, RetriableError
from fencepost.builtin.java import connector as module
from fencepost.builtin.java import questions
from fencepost.builtin.java.error import HostEndedError, JavaError, JavaUnavailableError, Thrown
from fencepost.config import ConfigError
from fencepost.plugin import PluginKind
from fencepost.record import TopicPartition
from fencepost.telemetry.loggers import loggers
from fencepost.testing import eventually
from support.jars import SINK
from support.java_host import ScriptedConnector, ScriptedHost, ScriptedJava, definition
from support.scripted_plugins import PRICES, plugins_with

CONFIG = {"name": "prices", "connector.class": PRICES, "url": "u"}


class Context:
    """Remembers what a connector asks of its runtime."""

    def __init__(self) -> None:
        self.reconfigurations = 0
        self.errors: list[Exception] = []

    def request_task_reconfiguration(self) -> None:
        self.reconfigurations += 1

    def raise_error(self, error: Exception) -> None:
        self.errors.append(error)

    def remark(self, text: str | None) -> None: ...

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return []


def connector(directory: Path, machine: ScriptedJava) -> Any:
    made = plugins_with(directory, machine=machine).find(PluginKind.CONNECTOR, PRICES)(CONFIG)
    made.context = Context()
    return made


def test_a_started_connector_plans_in_a_host_until_it_is_stopped(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.start()
    assert made.task_configs(4) == [{"n": "0"}]
    assert made.task_class_name == "org.example.PriceTask"
    assert made.version == "7.1"
    made.stop()
    assert machine.connectors[0].log == ["start", "stop", "close"]
    assert machine.asked == []


def test_stopped_connector_is_asked_in_the_host_for_validation(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    assert made.exactly_once_support() is ExactlyOnceSupport.SUPPORTED
    assert made.can_define_transaction_boundaries()
    assert made.alter_offsets({(("f", 1),): {"at": 3}, (("f", 2),): None})
    assert machine.connectors[2].log == ["alter [({'f': 1}, {'at': 3}), ({'f': 2}, None)]", "close"]
    assert [host.options.label for host in machine.hosts] == [
        "host for validation"
    ] * 2  # a change of offsets has its own


def test_connector_starts_and_plans_again_when_its_host_has_ended(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.start()
    machine.hosts[0].end = "exit code 1"
    with pytest.raises(RetriableError):
        made.task_configs(1)
    eventually(lambda: made.context.reconfigurations == 1, within_s=60)
    assert made.task_configs(1) == [{"n": "0"}]
    assert len(machine.hosts) == 2
    made.stop()
    assert made.context.errors == []


def test_a_connector_fails_when_its_hosts_end_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOST_WITHIN_S", math.inf)  # a machine may be slow
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.start()
    for life in range(3):
        eventually(lambda life=life: len(machine.hosts) == life + 1, within_s=60)
        machine.hosts[life].end = "it ran out of memory"
    eventually(lambda: bool(made.context.errors), within_s=60)
    (error,) = made.context.errors
    assert isinstance(error, HostEndedError)
    assert "3 times in a minute: it ran out of memory" in str(error)
    made.stop()


def test_connector_that_cannot_start_releases_the_shared_host(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.plugins.hosts.connectors.take("another")
    machine.hosts[0].end = None

    def refuse(*_: Any) -> Any:
        raise ValueError("no such host")

    machine.hosts[0].connector = refuse  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="no such host"):
        made.start()
    made.stop()
    assert made.plugins.hosts.connectors.take("third").companions() == {"another", "third"}


@pytest.mark.parametrize("call", ["start", "stop"])
def test_a_connector_that_fails_is_closed_in_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: Any) -> None:
        raise JavaError("no table", Thrown("java.lang.IllegalStateException", "no table", "stack"))

    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    monkeypatch.setattr(ScriptedConnector, call, refuse)
    if call == "stop":
        made.start()
    with pytest.raises(JavaError, match="no table"):
        getattr(made, call)()
    assert machine.connectors[0].log[-1] == "close"


def test_logger_levels_reach_running_and_later_hosts(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.start()
    name = f"test-{uuid.uuid4().hex}"
    loggers.set_level(name, "WARNING", 1)
    try:
        eventually(lambda: any(levels.get(name) == "WARN" for levels in machine.levels), within_s=60)
        machine.levels.clear()
        made.exactly_once_support()  # in another host
        assert machine.levels[0][name] == "WARN"
    finally:
        loggers.set_level(name, "INFO", 2)
        made.stop()


def test_late_logger_level_does_not_replace_a_newer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.start()
    machine.levels.clear()  # of loggers of other tests
    name, say = f"test-{uuid.uuid4().hex}", machine.hosts[0].set_levels

    def say_late(levels: Mapping[str, str]) -> None:
        if levels[name] == "WARN":
            loggers.set_level(name, "ERROR", 2)
            eventually(lambda: machine.levels[-1][name] == "ERROR", within_s=60)
        say(levels)

    monkeypatch.setattr(machine.hosts[0], "set_levels", say_late)
    loggers.set_level(name, "WARNING", 1)
    try:
        eventually(lambda: [each[name] for each in machine.levels] == ["ERROR", "WARN", "ERROR"], within_s=120)
    finally:
        loggers.set_level(name, "INFO", 3)
        made.stop()


class Stuck:
    """A `start` of a connector that does not return, unless it is interrupted, or only with its host."""

    def __init__(self, *, heeds_interrupts: bool) -> None:
        self.heeds_interrupts = heeds_interrupts
        self.is_reached = threading.Event()

    def __call__(self, hosted: ScriptedConnector) -> None:
        self.is_reached.set()
        eventually(
            lambda: hosted.host.end is not None or (self.heeds_interrupts and hosted.is_interrupted.is_set()),
            within_s=60,
        )
        hosted.host.ensure_alive()
        raise JavaError("interrupted", Thrown("java.lang.InterruptedException", None, "stack"))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is to end is interrupted at once, and its host killed at once after that."""
    monkeypatch.setattr(module, "_POLITE_S", 0.01)
    monkeypatch.setattr(module, "_KILL_S", 0.01)


@pytest.mark.parametrize("heeds_interrupts", [True, False])
def test_hanging_start_ends_when_the_connector_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heeds_interrupts: bool
) -> None:
    monkeypatch.setattr(module, "_POLITE_S", 0.01)
    if not heeds_interrupts:
        monkeypatch.setattr(module, "_KILL_S", 0.01)
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    machine.in_start = Stuck(heeds_interrupts=heeds_interrupts)
    errors: list[BaseException] = []

    def start() -> None:
        try:
            made.start()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    assert machine.in_start.is_reached.wait(60)
    made.end_calls()
    thread.join(60)
    (error,) = errors
    assert isinstance(error, JavaError if heeds_interrupts else HostEndedError)
    assert "interrupt" in machine.connectors[0].log
    assert machine.hosts[0].end == (
        None if heeds_interrupts else "it was killed: the start of connector prices did not return in time"
    )
    made.end_calls()  # there is no call any more
    made.stop()


@pytest.mark.usefixtures("impatient")
def test_connector_that_hangs_in_its_constructor_is_killed_when_stopped(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.plugins.hosts.connectors.take("another")
    is_reached = threading.Event()

    def hang(*_: Any) -> Any:
        is_reached.set()
        eventually(lambda: machine.hosts[0].end is not None, within_s=60)
        machine.hosts[0].ensure_alive()

    machine.hosts[0].connector = hang  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(made.start)
        assert is_reached.wait(60)
        made.end_calls()
        with pytest.raises(HostEndedError, match="the start of connector prices did not return in time"):
            starting.result(120)
    made.stop()


def test_stopped_connector_is_interrupted_in_start_after_a_slow_creation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POLITE_S", 0.01)
    monkeypatch.setattr(module, "_KILL_S", 60.0)
    monkeypatch.setattr(module, "_WATCH_S", 0.01)
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.plugins.hosts.connectors.take("another")
    create, is_reached, goes_on = machine.hosts[0].connector, threading.Event(), threading.Event()
    looks: list[float] = []

    def create_late(*arguments: Any) -> Any:
        is_reached.set()
        assert goes_on.wait(60)
        return create(*arguments)

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            looks.append(timeout or 0.0)
            if len(looks) == 2:  # the connector was looked for once, in vain
                goes_on.set()
            return super().wait(timeout)

    machine.hosts[0].connector = create_late  # type: ignore[method-assign]
    machine.in_start = Stuck(heeds_interrupts=True)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(made.start)
        assert is_reached.wait(60)
        made._under_way.has_ended = Ended()
        made.end_calls()
        with pytest.raises(JavaError, match="interrupted"):
            starting.result(120)
    assert machine.hosts[0].end is None


@pytest.mark.usefixtures("impatient")
def test_stop_during_the_start_of_the_host_ends_the_connectors_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    hosts = made.plugins.hosts
    start, begins, goes_on = hosts._start_one, threading.Event(), threading.Event()

    def start_late(options: Any) -> Any:
        begins.set()
        assert goes_on.wait(60)
        return start(options)

    monkeypatch.setattr(hosts, "_start_one", start_late)
    machine.in_start = Stuck(heeds_interrupts=False)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(made.start)
        assert begins.wait(60)
        made.end_calls()
        goes_on.set()
        with pytest.raises(HostEndedError, match="the start of connector prices did not return in time"):
            starting.result(120)
    assert len(machine.hosts) == 1
    made.stop()


def test_announced_stop_gets_the_whole_stop_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.start()
    made.end_calls()
    ends: list[float] = []
    monkeypatch.setattr(type(made), "_end_call", lambda made, polite_s, kill_s: ends.append(polite_s))
    made.stop()
    assert ends == [module._POLITE_S, module._STOP_S]  # the first of these finds nothing under way
    assert machine.connectors[0].log == ["start", "stop", "close"]


@pytest.mark.usefixtures("impatient")
def test_starting_connector_survives_a_host_killed_for_another_connector(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    other = type(made)({**CONFIG, "name": "orders"})
    other.context = Context()
    stuck = {"prices": Stuck(heeds_interrupts=False), "orders": Stuck(heeds_interrupts=False)}
    names = {id(made.context): "prices", id(other.context): "orders"}

    def start(hosted: ScriptedConnector) -> None:
        if hosted.host is machine.hosts[0]:
            stuck[names[id(hosted.context)]](hosted)

    machine.in_start = start
    with ThreadPoolExecutor(2) as pool:
        others = pool.submit(other.start)
        assert stuck["orders"].is_reached.wait(60)
        mine = pool.submit(made.start)
        assert stuck["prices"].is_reached.wait(60)
        made.end_calls()
        with pytest.raises(HostEndedError, match="the start of connector prices did not return in time"):
            mine.result(120)
        others.result(120)
    assert other.task_configs(1) == [{"n": "0"}]
    assert len(machine.hosts) == 2
    other.stop()


def test_connector_start_gives_up_after_three_hosts(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)

    def end_host(hosted: ScriptedConnector) -> None:
        with made.plugins.hosts.connectors.take("another") as lease:
            lease.kill("the start of connector another did not return in time")
        hosted.host.ensure_alive()

    machine.in_start = end_host
    with pytest.raises(HostEndedError, match="the start of connector another"):
        made.start()
    assert len(machine.hosts) == 3


def test_connector_that_crashes_its_host_in_start_is_not_started_in_another(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)

    def crash(hosted: ScriptedConnector) -> None:
        hosted.host.end = "exit code 1"
        hosted.host.ensure_alive()

    machine.in_start = crash
    with pytest.raises(HostEndedError, match="exit code 1"):
        made.start()
    assert len(machine.hosts) == 1


def test_starting_connector_survives_the_crash_of_another_connector(tmp_path: Path) -> None:
    """Either may have ended the host, so both are started once more, each alone."""
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    other = type(made)({**CONFIG, "name": "orders"})
    other.context = Context()
    is_reached = threading.Event()

    def start(hosted: ScriptedConnector) -> None:
        if hosted.context is made.context:
            assert is_reached.wait(60)
            hosted.host.end = "exit code 1"
        elif hosted.host is machine.hosts[0]:
            is_reached.set()
            eventually(lambda: hosted.host.end is not None, within_s=60)
        hosted.host.ensure_alive()

    machine.in_start = start
    with ThreadPoolExecutor(2) as pool:
        others = pool.submit(other.start)
        assert is_reached.wait(60)
        mine = pool.submit(made.start)
        with pytest.raises(HostEndedError, match="exit code 1"):
            mine.result(120)
        others.result(120)
    assert other.task_configs(1) == [{"n": "0"}]
    assert len(machine.hosts) == 3
    other.stop()
    assert [host for host in machine.hosts if host.end is None] == []
    assert other.plugins.hosts.connectors.running == []


def test_a_connector_that_crashes_again_and_again_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOST_WITHIN_S", math.inf)  # a machine may be slow
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    others = [type(made)({**CONFIG, "name": name}) for name in ("orders", "stocks")]
    for each in others:
        each.context = Context()
        each.start()
    made.start()
    for _ in range(3):
        host = eventually(lambda: host_of(made), within_s=60)
        host.end = "exit code 1"
        eventually(lambda host=host: made.context.errors or host_of(made) not in (None, host), within_s=60)
    eventually(lambda: made.context.errors, within_s=60)
    assert "ended 3 times in a minute" in str(made.context.errors[0])
    for each in others:
        assert eventually(lambda each=each: host_of(each), within_s=60).end is None
        assert each.task_configs(1) == [{"n": "0"}]
        assert each.context.errors == []
        each.stop()
    made.stop()


def test_connectors_share_a_host_again_after_the_system_killed_it(tmp_path: Path) -> None:
    """Where memory is short, the system kills a host; a host for each connector would need more of it."""
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    every = [made, *(type(made)({**CONFIG, "name": f"c{n}"}) for n in range(8))]
    for each in every[1:]:
        each.context = Context()
    for each in every:
        each.start()
    for life in range(4):
        host = machine.hosts[life]
        host.is_killed_by_others, host.end = True, "signal 9 ended it"
        for each in every:
            eventually(lambda each=each, host=host: host_of(each) not in (None, host), within_s=60)
        assert len(machine.hosts) == life + 2
    assert [error for each in every for error in each.context.errors] == []
    for each in every:
        each.stop()


def test_connector_alone_in_hosts_that_the_system_kills_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start again without end: where it needs more memory than there is, the system kills each host."""
    monkeypatch.setattr(module, "_LOST_WITHIN_S", math.inf)  # a machine may be slow
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    made.start()
    for _ in range(3):
        host = eventually(lambda: host_of(made), within_s=60)
        host.is_killed_by_others, host.end = True, "signal 9 ended it"
        eventually(lambda host=host: made.context.errors or host_of(made) not in (None, host), within_s=60)
    eventually(lambda: made.context.errors, within_s=60)
    assert "ended 3 times in a minute: signal 9 ended it" in str(made.context.errors[0])
    assert not made._is_suspect
    made.stop()


def test_connector_is_not_suspected_when_its_host_is_killed_during_start(tmp_path: Path) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)

    def start(hosted: ScriptedConnector) -> None:
        if hosted.host is machine.hosts[0]:
            hosted.host.is_killed_by_others, hosted.host.end = True, "signal 9 ended it"
        hosted.host.ensure_alive()

    machine.in_start = start
    made.start()
    assert len(machine.hosts) == 2
    assert made.plugins.hosts.connectors.take("another").companions() >= {"another", "connector prices"}
    made.stop()


def host_of(made: Any) -> ScriptedHost | None:
    """Return the host in which a connector runs; None while it is between two."""
    running = [host for host in made.plugins.hosts.connectors.running if made._lease and made._lease.host is host]
    return running[0] if running else None


def test_offset_change_runs_in_a_host_that_no_other_question_can_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)

    def alter(hosted: ScriptedConnector, *arguments: object) -> bool:
        with made.plugins.hosts.inspection.take("another") as lease:
            lease.kill("validation of a.Hanging was not answered within 75 s")
        hosted.host.ensure_alive()
        return True

    monkeypatch.setattr(ScriptedConnector, "alter_source_offsets", alter)
    assert made.alter_offsets({(("f", 1),): {"at": 3}})
    assert len(machine.connectors) == 1


def test_offsets_are_not_changed_twice_when_the_host_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ScriptedJava()
    made = connector(tmp_path, machine)
    changes: list[object] = []

    def alter(hosted: ScriptedConnector, *arguments: object) -> bool:
        changes.append(arguments)
        hosted.host.end = "exit code 1"
        hosted.host.ensure_alive()
        return True

    monkeypatch.setattr(ScriptedConnector, "alter_source_offsets", alter)
    with pytest.raises(
        FatalError, match=f"unknown whether alterOffsets of {PRICES} took effect.*then send the request"
    ):
        made.alter_offsets({(("f", 1),): {"at": 3}})
    assert len(changes) == 1


@pytest.mark.parametrize("error", [HostEndedError("exit code 1"), JavaUnavailableError("no Java"), OSError("full")])
def test_settings_of_a_java_class_are_asked_for_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    machine = ScriptedJava()
    machine.definitions[PRICES] = [definition("url")]
    cls = plugins_with(tmp_path, machine=machine).find(PluginKind.CONNECTOR, PRICES)
    definitions, asked = ScriptedHost.definitions, threading.Event()

    def crash(*_: Any) -> Any:
        asked.set()
        raise error

    monkeypatch.setattr(ScriptedHost, "definitions", crash)
    assert cls.known_settings() is None
    assert asked.wait(60)
    eventually(lambda: cls.plugins.questions._asks_at[cls.java] < math.inf, within_s=60)
    monkeypatch.setattr(ScriptedHost, "definitions", definitions)
    assert cls.known_settings() is None
    is_asked = cls.plugins.questions._asks_at[cls.java] == math.inf
    assert not is_asked  # a class that crashes would otherwise cost a JVM for each config that is shown
    for each in (questions, questions):
        monkeypatch.setattr(each, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + questions.AGAIN_S))
    eventually(lambda: cls.known_settings() is not None, within_s=60)


def test_config_is_validated_by_the_java_connector(tmp_path: Path) -> None:
    machine = ScriptedJava()
    machine.definitions[PRICES] = [definition("url"), definition("password", "PASSWORD", "")]
    machine.faults = lambda name, value: ["the url is nobody's"] if value == "u" else []
    cls = plugins_with(tmp_path, machine=machine).find(PluginKind.CONNECTOR, PRICES)
    url, password = cls.validate(CONFIG)
    assert (url.setting.key, url.value, url.errors) == ("url", "u", ("the url is nobody's",))
    assert password.errors == ()


def test_failed_validation_host_is_a_config_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ScriptedJava()
    cls = plugins_with(tmp_path, machine=machine).find(PluginKind.CONNECTOR, PRICES)

    def fail(*_: Any) -> Any:
        raise HostEndedError("the host was killed")

    monkeypatch.setattr(ScriptedHost, "validate", fail)
    monkeypatch.setattr(ScriptedHost, "definitions", fail)
    for ask in (cls.settings, lambda: cls.validate(CONFIG)):
        with pytest.raises(ConfigError, match="the host was killed"):
            ask()


def test_unknown_settings_are_loaded_in_the_background(tmp_path: Path) -> None:
    machine = ScriptedJava()
    machine.definitions[PRICES] = [definition("url")]
    cls = plugins_with(tmp_path, machine=machine).find(PluginKind.CONNECTOR, PRICES)
    assert cls.known_settings() is None
    eventually(lambda: cls.known_settings() is not None, within_s=60)
    assert list(cls.known_settings()) == ["url"]
    assert machine.asked == [f"definitions {PRICES}"]


def sink(directory: Path, machine: ScriptedJava) -> Any:
    table = "org.example.TableSinkConnector"
    made = plugins_with(directory, {SINK: [table]}, machine).find(PluginKind.CONNECTOR, table)
    return made({"name": "table", "connector.class": table, "topics": "a,b"})


def test_task_configs_of_a_sink_contain_its_topics(tmp_path: Path) -> None:
    made = sink(tmp_path, ScriptedJava())
    made.context = Context()
    made.start()
    assert made.task_configs(4) == [{"n": "0", "topics": "a,b"}]
    made.stop()


def test_a_sink_is_asked_before_its_offsets_are_changed(tmp_path: Path) -> None:
    machine = ScriptedJava()
    place = TopicPartition("a", 0)
    assert sink(tmp_path, machine).alter_offsets({place: None})
    assert machine.connectors[0].log == [f"alter {{{place!r}: None}}", "close"]
