"""A host that several users share."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import RetriableError
from fencepost.builtin.java import shared_host
from fencepost.builtin.java.error import HostEndedError, HostTimeoutError
from fencepost.builtin.java.port import HostOptions
from fencepost.builtin.java.shared_host import SharedHost
from fencepost.testing import eventually
from support.java_host import ScriptedHost, ScriptedJava


def shared(java: ScriptedJava, linger_s: float = 60.0) -> SharedHost:
    return SharedHost(java.start, HostOptions((), "host of a test"), linger_s)


def test_at_most_two_separate_hosts_start_at_once() -> None:
    starting, most, lock = [0], [0], threading.Lock()

    def start(options: HostOptions) -> ScriptedHost:
        with lock:
            starting[0] += 1
            most[0] = max(most[0], starting[0])
        time.sleep(0.02)
        with lock:
            starting[0] -= 1
        return ScriptedHost(options, ScriptedJava())

    host = SharedHost(start, HostOptions(), 1.0)
    with ThreadPoolExecutor(8) as pool:
        leases = list(pool.map(host.take_apart, "abcdefgh"))
    assert most == [2]
    for each in leases:
        each.end()


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


def test_host_that_does_not_answer_in_time_is_killed_and_replaced(
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


class Bystander:
    """A question that waits for the end of the first host in which it is asked."""

    def __init__(self) -> None:
        self.hosts: list[ScriptedHost] = []
        self.is_asked = threading.Event()

    def __call__(self, given: Any) -> str:
        self.hosts.append(given)
        if len(self.hosts) == 1:
            self.is_asked.set()
            hang(given)
        return "7.1"


def crash(given: Any) -> None:
    given.end = "exit code 1"
    given.ensure_alive()


def test_question_is_repeated_when_its_host_is_killed_for_another_question(monkeypatch: pytest.MonkeyPatch) -> None:
    java = ScriptedJava()
    host = shared(java)
    bystander = Bystander()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(host.answer, "version of a.Thing", bystander)
        assert bystander.is_asked.wait(60)
        monkeypatch.setattr(shared_host, "_ANSWER_S", 0.01)
        with pytest.raises(HostTimeoutError, match=r"^validation of a\.Hanging "):
            host.answer("validation of a.Hanging", hang)
        monkeypatch.undo()
        assert answer.result(60) == "7.1"
    assert bystander.hosts == java.hosts
    assert len(bystander.hosts) == 2


def test_crash_of_a_host_fails_only_the_question_that_caused_the_crash() -> None:
    java = ScriptedJava()
    host = shared(java)
    bystander = Bystander()
    with ThreadPoolExecutor(1) as pool:
        innocent = pool.submit(host.answer, "version of a.Thing", bystander)
        assert bystander.is_asked.wait(60)
        with pytest.raises(HostEndedError, match=r"^exit code 1$"):
            host.answer("validation of a.Crashing", crash)
        assert innocent.result(60) == "7.1"
    assert len(bystander.hosts) == 2
    assert len(java.hosts) == 3  # the shared one, and one for each of the two
    assert all(each.is_closed for each in java.hosts)


def test_crash_left_by_an_earlier_question_does_not_fail_the_next_one() -> None:
    java = ScriptedJava()
    host = shared(java)
    host.answer("validation of a.Leaving", lambda given: None)
    asked: list[ScriptedHost] = []

    def ask(given: Any) -> str:
        asked.append(given)
        if len(asked) == 1:
            crash(given)  # in a thread that the earlier question has left
        return "7.1"

    assert host.answer("version of a.Thing", ask) == "7.1"
    assert asked == java.hosts


def test_crashing_question_ends_at_most_two_hosts() -> None:
    java = ScriptedJava()
    host = shared(java)
    host.answer("version of a.Thing", lambda given: None)
    with pytest.raises(HostEndedError, match=r"^exit code 1$"):
        host.answer("validation of a.Crashing", crash)
    assert len(java.hosts) == 2


def test_question_that_crashes_its_own_fresh_host_is_not_repeated() -> None:
    java = ScriptedJava()
    with pytest.raises(HostEndedError, match=r"^exit code 1$"):
        shared(java).answer("version of a.Thing", crash)
    assert len(java.hosts) == 1


def test_question_that_hangs_in_its_own_host_is_named_in_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    java = ScriptedJava()
    monkeypatch.setattr(shared_host, "_ANSWER_S", 0.01)
    with pytest.raises(HostTimeoutError, match=r"^alterOffsets of a\.Thing was not answered within 0\.01 s"):
        shared(java).answer_alone("alterOffsets of a.Thing", hang)
    assert [each.is_closed for each in java.hosts] == [True]


def test_number_of_hosts_for_single_questions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    java = ScriptedJava()
    host = shared(java)
    goes_on = threading.Event()
    most = shared_host._MOST_ALONE
    with ThreadPoolExecutor(most) as pool:
        others = [pool.submit(host.answer_alone, "another", lambda given: goes_on.wait(60)) for _ in range(most)]
        try:
            eventually(lambda: len(java.hosts) == most, within_s=60)
            monkeypatch.setattr(shared_host, "_ALL_S", shared_host._LEAST_S + 0.01)
            with pytest.raises(RetriableError, match=r"^version of a\.Thing was not answered: .*Send the request"):
                host.answer_alone("version of a.Thing", lambda given: "7.1")
            assert len(java.hosts) == most
            monkeypatch.undo()
        finally:
            goes_on.set()
        assert all(other.result(60) for other in others)
    assert host.answer_alone("version of a.Thing", lambda given: "7.1") == "7.1"


class Clock:
    """What a time measures that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(shared_host, "time", SimpleNamespace(monotonic=lambda: self.now_s))


def test_question_is_not_asked_after_its_host_used_up_the_time_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller would get a time-out, and the change of offsets would take effect after it."""
    clock, java = Clock(monkeypatch), ScriptedJava()

    def start(options: HostOptions) -> ScriptedHost:
        clock.now_s += 71
        return java.start(options)

    asked: list[Any] = []
    host = SharedHost(start, HostOptions((), "host of a test"), 60.0)
    with pytest.raises(RetriableError, match=r"^alterOffsets of a\.Thing was not answered: there was no time"):
        host.answer_alone("alterOffsets of a.Thing", asked.append)
    assert asked == []
    assert [each.is_closed for each in java.hosts] == [True]


def test_repeated_question_gets_the_remaining_time_of_the_first_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, java = Clock(monkeypatch), ScriptedJava()
    host = shared(java)
    host.answer("validation of a.Leaving", lambda given: None)

    def ask(given: Any) -> str:
        clock.now_s += 71
        crash(given)  # in a thread that the earlier question has left
        return "7.1"

    with pytest.raises(RetriableError, match=r"^version of a\.Thing was not answered: there was no time"):
        host.answer("version of a.Thing", ask)
    assert len(java.hosts) == 1


def test_crash_of_a_host_does_not_count_as_a_kill() -> None:
    java = ScriptedJava()
    lease = shared(java).take("one")
    java.hosts[0].end = "exit code 1"
    assert not lease.was_killed


def test_crashed_host_is_closed_by_the_next_or_the_last_user() -> None:
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
