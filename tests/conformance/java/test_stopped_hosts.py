"""A host that is stopped (SIGSTOP), or hangs: who asks it something does not wait for it without an end."""

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fencepost.builtin.java import connector as connectors
from fencepost.builtin.java import shared_host
from fencepost.builtin.java.client import host as host_client
from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.connector import class_for
from fencepost.builtin.java.error import ConnectionLostError, HostEndedError
from fencepost.builtin.java.index import JavaIndex, JavaKind
from fencepost.builtin.java.plugins import JavaHosts, JavaPlugins
from fencepost.builtin.java.port import HostOptions, JavaClass, Location
from fencepost.builtin.java.start import start_host
from fencepost.config import ConfigError
from fencepost.telemetry.loggers import loggers
from fencepost.testing.verdict import eventually
from support.quick import QUICK

_SECONDS = 120  # for the start of a host beside other tests
_WHAT = "org.apache.kafka.connect.transforms.HoistField$Value"


@pytest.fixture
def hosts(plugins: Location) -> Iterator[JavaHosts]:
    made = JavaHosts([QUICK])
    yield made
    for host in (*made.inspection.running, *made.connectors.running):
        host.kill("the test is over")


@pytest.fixture
def beside() -> Iterator[Callable[..., "Future[Any]"]]:
    pool = ThreadPoolExecutor(1)
    yield pool.submit
    pool.shutdown(wait=False)


def stop(host: JavaHost) -> None:
    os.kill(host.pid, signal.SIGSTOP)


def test_request_to_a_paused_host_times_out_and_the_host_continues_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with start_host(HostOptions([QUICK], "host of tests")) as host:
        stop(host)
        monkeypatch.setattr(host_client, "_CONTROL_S", 0.05)
        with pytest.raises(ConnectionLostError, match=r"was not answered within 0\.05 s"):
            host.set_levels({"tests": "DEBUG"})
        with pytest.raises(ConnectionLostError, match=r"was not answered within 0\.05 s"):
            host.threads()
        monkeypatch.undo()
        os.kill(host.pid, signal.SIGCONT)
        host.set_levels({"tests": "ERROR"})
        assert "fencepost.host.Host.main" in host.threads()


def test_log_level_not_accepted_by_a_paused_host_does_not_block_other_starts(
    hosts: JavaHosts, beside: Callable[..., "Future[Any]"]
) -> None:
    name = f"test-{uuid.uuid4().hex}"
    with hosts.connectors.take("one") as lease:
        stop(lease.host)
        try:
            loggers.set_level(name, "DEBUG", 1)
            with beside(hosts.inspection.take, "other").result(_SECONDS) as other:
                assert other.host.end is None
        finally:
            os.kill(lease.host.pid, signal.SIGCONT)
            loggers.set_level(name, "INFO", 2)
        eventually(lambda: all(each.name != "java-levels" for each in threading.enumerate()), within_s=_SECONDS)


def test_paused_validation_host_is_ended_when_it_does_not_answer(
    hosts: JavaHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = JavaPlugins(JavaIndex([]), hosts, class_for, facts_directory=tmp_path).questions
    hoist, given = JavaClass(_WHAT), {"field": "f"}
    assert [each.errors for each in questions.validated(hoist, given)] == [()]
    stop(*hosts.inspection.running)
    monkeypatch.setattr(shared_host, "_ANSWER_S", 0.2)
    with pytest.raises(ConfigError, match=r"^validation of .*\$Value was not answered within 0\.2 s.*send the request"):
        questions.validated(hoist, given)
    monkeypatch.undo()
    assert [each.errors for each in questions.validated(hoist, given)] == [()]


def test_connector_can_be_stopped_while_a_paused_host_does_not_create_it(
    hosts: JavaHosts,
    plugins: Location,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    beside: Callable[..., "Future[Any]"],
) -> None:
    monkeypatch.setattr(connectors, "_POLITE_S", 0.05)
    monkeypatch.setattr(connectors, "_KILL_S", 0.05)
    java = JavaPlugins(JavaIndex([]), hosts, class_for, facts_directory=tmp_path)
    made = java.made(JavaKind.SOURCE, JavaClass("tests.ScriptedConnector", plugins))({"name": "made"})
    made.context = connectors._NoContext()
    with hosts.connectors.take("another") as lease:
        stop(lease.host)
        starting = beside(made.start)
        eventually(lambda: made._under_way is not None, within_s=_SECONDS)
        made.end_calls()
        with pytest.raises(HostEndedError, match="because the start of connector made did not return in time"):
            starting.result(_SECONDS)
    made.stop()
