"""Connectors that a worker brings with it."""

import threading
from dataclasses import replace

import pytest

from fencepost.cluster.errors import BadRequestError, ConflictError
from fencepost.config.reference import RawConfig
from fencepost.storage.change import TargetState
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.testing import eventually
from fencepost.worker.declaration import Declaration, Declared

A = {"name": "a", "connector.class": "X"}
B = {"name": "b", "connector.class": "Y"}


class DeclarationStage:
    """A worker that may lead, and what is stored."""

    def __init__(self, *, rivals: bool = False) -> None:
        self.snapshot = ClusterSnapshot()
        self.put: list[str] = []
        self.failures: list[Exception] = []
        self.answers: list[Exception] = []
        self.leads = True
        self.stopping = threading.Event()
        declared = Declared({"a": A, "b": B}, {"r": "set it back"} if rivals else {})
        self.declaration = Declaration(
            declared, self.put_config, lambda: self.snapshot, lambda: self.leads, self.failures.append, self.stopping
        )

    def put_config(self, name: str, config: RawConfig) -> None:
        if self.answers:
            raise self.answers.pop(0)
        self.put.append(name)
        self.store(**{name: config})

    def store(self, **configs: RawConfig) -> None:
        self.snapshot = replace(self.snapshot, connectors={**self.snapshot.connectors, **configs})


def test_only_missing_or_different_connectors_are_stored() -> None:
    scene = DeclarationStage()
    scene.store(a=A, b={**B, "more": "1"})
    assert scene.declaration.declare()
    assert scene.put == ["b"]
    assert scene.declaration.declare()
    assert scene.put == ["b"]


def test_passing_errors_are_retried_and_invalid_configs_end_the_worker() -> None:
    scene = DeclarationStage()
    scene.answers = [ConflictError("an election")]
    assert not scene.declaration.declare()
    assert scene.declaration.declare()
    assert (scene.put, scene.failures) == (["a", "b"], [])
    wrong = DeclarationStage()
    wrong.answers = [BadRequestError("source.cluster.alias is missing")]
    assert wrong.declaration.declare()
    assert [str(error) for error in wrong.failures] == ["a: source.cluster.alias is missing"]


@pytest.mark.parametrize("state", list(TargetState))
def test_connectors_are_stored_only_if_rival_connectors_are_stopped(state: TargetState) -> None:
    scene = DeclarationStage(rivals=True)
    scene.store(r={"name": "r"})
    scene.snapshot = replace(scene.snapshot, target_states={"r": state})
    scene.declaration.declare()
    if state is TargetState.STOPPED:
        assert (scene.put, scene.failures) == (["a", "b"], [])
    else:
        assert scene.put == []
        assert [str(error) for error in scene.failures] == ["There is a connector r: set it back"]


def test_declared_connectors_are_checked_once_each_time_a_worker_begins_to_lead() -> None:
    scene = DeclarationStage()
    scene.leads = False
    scene.declaration.start()
    scene.leads = True
    eventually(lambda: scene.declaration.is_done)
    assert scene.put == ["a", "b"]
    scene.store(a={**A, "by": "hand"})
    scene.leads = False
    eventually(lambda: not scene.declaration.is_done)
    assert scene.put == ["a", "b"]
    scene.leads = True
    eventually(lambda: scene.put == ["a", "b", "a"])
    scene.stopping.set()
