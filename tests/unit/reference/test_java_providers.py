"""Config providers in Java, whose host is scripted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fencepost.builtin.java.error import HostEndedError, JavaError, JavaRetriableError, Thrown
from fencepost.builtin.java.port import JavaClass
from fencepost.plugin import PluginKind
from fencepost.reference import Providers
from fencepost.secret.known import hide
from support.java_host import ScriptedHost, ScriptedJava
from support.scripted_plugins import ScriptedPlugins, plugins_with

PROVIDER = "org.apache.kafka.common.config.provider.ConfigProvider"
SAFE = "org.example.SafeConfigProvider"
DECLARED = {
    "config.providers": "safe",
    "config.providers.safe.class": "Safe",
    "config.providers.safe.param.token": "t0p-secret",
}


class Machine(ScriptedJava):
    """Answers look-ups from `values`, or raises `error`."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, str] = {"password": "hunter2"}
        self.ttl_ms: int | None = None
        self.error: Exception | None = None
        self.looked_up: list[Any] = []


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()

    def look_up(
        host: ScriptedHost, java_class: JavaClass, settings: Mapping[str, str], path: str, keys: Sequence[str]
    ) -> tuple[dict[str, str], int | None]:
        made.looked_up.append((java_class.name, dict(settings), path, list(keys)))
        if made.error is not None:
            raise made.error
        return {key: made.values[key] for key in keys if key in made.values}, made.ttl_ms

    monkeypatch.setattr(ScriptedHost, "look_up", look_up, raising=False)
    return made


@pytest.fixture
def providers(tmp_path: Path, machine: Machine) -> Providers:
    registry: ScriptedPlugins = plugins_with(tmp_path, {PROVIDER: [SAFE]}, machine)
    return Providers(DECLARED, lambda kind, name: registry.find(PluginKind(kind), name))


def test_references_are_looked_up_in_a_host_and_hidden(providers: Providers, machine: Machine) -> None:
    machine.ttl_ms = 60_000
    found = providers.look_up({"a": "x-${safe:vault:password}"})
    assert found.require() == {"a": "x-hunter2"}
    assert found.ttl_ms == 60_000
    assert machine.looked_up == [(SAFE, {"token": "t0p-secret"}, "vault", ["password"])]
    assert "hunter2" not in hide("it was hunter2")
    assert "t0p-secret" not in hide("with t0p-secret")


def test_host_is_not_started_before_a_value_is_needed(providers: Providers, machine: Machine) -> None:
    providers.check()
    assert providers.look_up({"a": "plain"}).require() == {"a": "plain"}
    assert machine.hosts == []


def test_java_exception_is_reported_without_its_stack(providers: Providers, machine: Machine) -> None:
    machine.error = JavaError("java.io.IOException: no such vault\n\tat a.b.C", Thrown("C", "m", "t"))
    fault = providers.look_up({"a": "${safe:vault:password}"}).faults["a"]
    assert fault.endswith("cannot be looked up: java.io.IOException: no such vault")


@pytest.mark.parametrize("error", [HostEndedError("gone"), JavaRetriableError("away", Thrown("C", "m", "t"))])
def test_look_up_is_retried_after_a_temporary_error(providers: Providers, machine: Machine, error: Exception) -> None:
    machine.error = error
    assert providers.look_up({"a": "${safe:vault:password}"}).away is not None
    machine.error = None
    assert providers.look_up({"a": "${safe:vault:password}"}).require() == {"a": "hunter2"}
