"""A host that several users share."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fencepost.java import shared_host
from fencepost.java.error import HostEndedError, HostTimeoutError, KilledForAnotherError
from fencepost.java.port import HostOptions
from fencepost.java.shared_host import SharedHost
from fencepost.testing import eventually
from support.java_host import ScriptedHost, ScriptedJava


def shared(java: ScriptedJava, linger_s: float = 60.0) -> SharedHost:
    return SharedHost(java.start, HostOptions((), "host of a test"), linger_s)


def test_users_share_a_host_that_the_first_one_starts() -> None:
    java = ScriptedJava()
    host = shared(java)
    assert java.hosts == []
    one, two = host.take("one"), host.take("two")
    assert one.host is two.host
    assert one.companions() == {"one", "two"}
    two.end()
    assert one.companions() == {"one"}


def test_a_host_without_users_waits_for_the_next_one() -> None:
    java = ScriptedJava()
    host = shared(java)
    with host.take("one") as before:
        pass
    assert host.take("two").host is before.host
    assert before.host.end is None


def test_a_host_without_users_ends_after_a_time() -> None:
    java = ScriptedJava()
    with shared(java, linger_s=0.01).take("one") as lease:
        pass
    eventually(lambda: lease.host.end is not None, within_s=30)


def test_a_host_that_has_ended_is_replaced_and_its_users_are_known() -> None:
    java = ScriptedJava()
    host = shared(java)
    one, two = host.take("one"), host.take("two")
    one.kill("it hangs")
    assert two.was_killed
    two.end()
    assert host.take("three").host is not one.host
    assert one.companions() == {"one", "two"}  # also who has learned of the end already
    one.end()
    one.end()


def test_a_host_that_does_not_answer_in_time_is_killed_and_the_next_question_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    java = ScriptedJava()
    host = shared(java)
    monkeypatch.setattr(shared_host, "_ANSWER_S", 0.01)
    with pytest.raises(
        HostTimeoutError, match=r"^version of a\.Thing was not answered within 0\.01 s.*send the request"
    ):
        host.answer("version of a.Thing", hang)
    assert java.hosts[0].end == "it was killed: version of a.Thing was not answered within 0.01 s"
    monkeypatch.undo()
    assert host.answer("version of a.Thing", lambda other: other.end) is None
    assert len(java.hosts) == 2


def hang(host: Any) -> None:
    eventually(lambda: host.end is not None, within_s=60)
    host.ensure_alive()


def test_a_question_whose_host_is_killed_for_another_one_is_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    java = ScriptedJava()
    host = shared(java)
    asked: list[ScriptedHost] = []
    is_asked = threading.Event()

    def ask(given: Any) -> str:
        asked.append(given)
        is_asked.set()
        if len(asked) == 1:
            hang(given)
        return "7.1"

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(host.answer, "version of a.Thing", ask)
        assert is_asked.wait(60)
        monkeypatch.setattr(shared_host, "_ANSWER_S", 0.01)
        with pytest.raises(HostTimeoutError, match=r"^validation of a\.Hanging "):
            host.answer("validation of a.Hanging", hang)
        monkeypatch.undo()
        assert answer.result(60) == "7.1"
    assert asked == java.hosts
    assert len(asked) == 2


def test_a_question_is_not_asked_more_than_twice_and_its_error_names_it() -> None:
    java = ScriptedJava()
    host = shared(java)

    def ask(given: Any) -> None:
        with host.take("another question") as lease:
            lease.kill("validation of a.Hanging was not answered within 75 s")
        given.ensure_alive()

    with pytest.raises(KilledForAnotherError, match=r"^version of a\.Thing was not answered.*of a\.Hanging was not"):
        host.answer("version of a.Thing", ask)
    assert len(java.hosts) == 2


def test_a_question_that_ended_its_host_in_another_way_is_not_asked_again() -> None:
    java = ScriptedJava()

    def crash(given: Any) -> None:
        given.end = "exit code 1"
        given.ensure_alive()

    with pytest.raises(HostEndedError, match=r"^exit code 1$"):
        shared(java).answer("version of a.Thing", crash)
    assert len(java.hosts) == 1


def test_a_crash_is_no_kill() -> None:
    java = ScriptedJava()
    lease = shared(java).take("one")
    java.hosts[0].end = "exit code 1"
    assert not lease.was_killed


def test_what_a_crash_leaves_is_released_by_the_next_user_or_the_last_one() -> None:
    java = ScriptedJava()
    host = shared(java)
    one, two = host.take("one"), host.take("two")
    java.hosts[0].end = "exit code 1"
    host.take("three")
    assert java.hosts[0].is_closed
    java.hosts[1].end = "exit code 2"
    java.hosts[0].is_closed = False
    one.end()
    two.end()
    assert java.hosts[0].is_closed
    assert not java.hosts[1].is_closed
