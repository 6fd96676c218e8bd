"""Java's part of a Python connector's chain, as the runtime sees it. The host is scripted."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fencepost.api import FatalError, RetriableError, SourceRecord
from fencepost.builtin.java.connector import JavaChain
from fencepost.builtin.java.error import HostEndedError, JavaError, JavaRetriableError, Thrown
from fencepost.builtin.java.port import ChainStart, ChainStep, HostOptions, JavaClass
from fencepost.builtin.java.shared_host import SharedHost
from fencepost.hook.hosted_chain import ChainUse, HostedPart, HostedStep, Passed, Refused, Role
from fencepost.hook.hosted_task import ForeignRecordError, HostLostError

UPPER = JavaClass("org.example.Upper")
THROWN = Thrown("org.example.BadValue", "it is bad", "the stack")
RECORDS = [SourceRecord({}, None, "t", "a")]


class Upper(HostedPart):
    java = UPPER


class OneHost:
    """A host with one chain. Each entry of `script` is what a call returns, or raises, or a function that is called."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.started: list[ChainStart] = []
        self.killed: list[str] = []
        self.end: str | None = None
        self.is_closed = False

    def chain(self, start: ChainStart) -> "OneHost":
        self.started.append(start)
        return self

    def run(self, records: Sequence[Any], first: int, end: int, is_chosen: Any) -> Any:
        return self.again()

    def again(self) -> Any:
        item = self.script.pop(0)
        item = item() if callable(item) else item
        if isinstance(item, Exception):
            raise item
        return item

    skip = again

    def kill(self, why: str) -> None:
        self.killed.append(why)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def chain() -> Callable[..., tuple[JavaChain, OneHost]]:
    def make(*script: Any) -> tuple[JavaChain, OneHost]:
        host = OneHost(*script)
        shared = SharedHost(lambda options: host, HostOptions(), 0.0)  # type: ignore[arg-type, return-value]
        steps = [HostedStep(Role.TRANSFORM, Upper, "transforms.u.", is_conditional=True)]
        return JavaChain(shared, steps, ChainUse("c-0", "i1", True, {"transforms.u.locale": "fr"})), host

    return make


def test_a_chain_is_opened_with_its_steps(chain: Any) -> None:
    made, host = chain(Passed([0], RECORDS, [True]))
    [start] = host.started
    assert start.steps == [ChainStep("transform", UPPER, "transforms.u.", is_conditional=True)]
    assert (start.owner, start.is_source, start.config) == ("c-0", True, {"transforms.u.locale": "fr"})
    assert "fr" not in repr(start)
    assert made.run(RECORDS, 0, 1) == Passed([0], RECORDS, [True])
    made.close()
    assert host.is_closed


@pytest.mark.parametrize(("kind", "is_retriable"), [(JavaError, False), (JavaRetriableError, True)])
def test_java_exception_for_a_record_becomes_a_record_error(chain: Any, kind: Any, is_retriable: bool) -> None:
    made, _ = chain(Refused(0, 0, kind("it is bad\n\tat a.b.C", THROWN)))
    found = made.again()
    error = found.error
    assert isinstance(error, ForeignRecordError)
    assert isinstance(error, RetriableError) is is_retriable
    assert not isinstance(error, FatalError)
    assert (str(error), error.operation, error.trace) == ("it is bad", UPPER.name, "the stack")
    assert f"{type(error).__module__}.{type(error).__qualname__}" == THROWN.class_name


def test_task_is_lost_when_the_host_of_its_chain_ends(chain: Any) -> None:
    made, _ = chain(HostEndedError("exit code 3"))
    with pytest.raises(HostLostError, match="exit code 3") as lost:
        made.skip()
    assert lost.value.companions == {"i1"}


def test_abandoned_chain_kills_its_host_only_during_a_call(chain: Any) -> None:
    made, host = chain(lambda: made.abandon(), None)
    made.abandon()
    assert host.killed == []
    made.run(RECORDS, 0, 1)
    assert len(host.killed) == 1
    made.abandon()
    assert len(host.killed) == 1
