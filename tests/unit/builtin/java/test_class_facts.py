"""What only a JVM can say about classes is asked once."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.builtin.java import questions as module
from fencepost.builtin.java import shared_host
from fencepost.builtin.java.error import HostEndedError, HostKilledError, HostTimeoutError, JavaPluginError
from fencepost.builtin.java.port import HostOptions, JavaClass, Location
from fencepost.builtin.java.questions import ClassFacts
from fencepost.builtin.java.shared_host import SharedHost
from fencepost.testing import eventually
from support.jars import write_jar
from support.java_host import ScriptedJava, definition


def facts(java: ScriptedJava, directory: Path) -> ClassFacts:
    return ClassFacts(SharedHost(java.start, HostOptions(), 60.0), directory)


@pytest.fixture
def thing(tmp_path: Path) -> JavaClass:
    jar = write_jar(tmp_path / "thing.jar")
    return JavaClass("org.example.Thing", Location(str(jar), (str(jar),)))


def test_host_is_asked_about_a_class_once_for_all_processes(tmp_path: Path, thing: JavaClass) -> None:
    java = ScriptedJava()
    java.definitions[thing.name] = [definition("size")]
    one = facts(java, tmp_path / "facts")
    assert one.known_version(thing) is None
    assert one.known_definitions(thing) is None
    assert (one.version(thing), one.version(thing)) == ("7.1", "7.1")
    assert [each["name"] for each in one.definitions(thing)] == ["size"]
    assert java.asked == ["describe org.example.Thing", "definitions org.example.Thing"]
    other = facts(java, tmp_path / "facts")
    assert (other.known_version(thing), other.known_definitions(thing)) == ("7.1", [definition("size")])
    assert len(java.hosts) == 1


def test_host_is_asked_about_a_class_again_when_its_jar_changed(tmp_path: Path, thing: JavaClass) -> None:
    java = ScriptedJava()
    facts(java, tmp_path / "facts").version(thing)
    os.utime(tmp_path / "thing.jar", ns=(1, 1))
    java.version_of = lambda java_class: "7.2"
    assert facts(java, tmp_path / "facts").version(thing) == "7.2"


def test_class_facts_in_an_image_layer_are_read_by_any_user(tmp_path: Path, thing: JavaClass) -> None:
    """Layers have times in whole seconds, and another user made them."""
    jar = tmp_path / "thing.jar"
    os.utime(jar, ns=(0, 1_700_000_000_900_000_000))
    java = ScriptedJava()
    facts(java, tmp_path / "facts").version(thing)
    (file,) = (tmp_path / "facts").iterdir()
    assert file.stat().st_mode & 0o777 == 0o644
    os.utime(jar, ns=(0, 1_700_000_000_000_000_000))
    assert facts(java, tmp_path / "facts").known_version(thing) == "7.1"


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"stamp": [], "classes": 3})])
def test_damaged_facts_file_is_ignored(tmp_path: Path, thing: JavaClass, text: str) -> None:
    java = ScriptedJava()
    facts(java, tmp_path / "facts").version(thing)
    (file,) = (tmp_path / "facts").iterdir()
    file.write_text(text)
    assert facts(java, tmp_path / "facts").known_version(thing) is None


def test_class_facts_stay_in_memory_when_their_directory_is_not_writable(tmp_path: Path, thing: JavaClass) -> None:
    (tmp_path / "file").touch()
    known = facts(ScriptedJava(), tmp_path / "file" / "below")
    assert (known.version(thing), known.known_version(thing)) == ("7.1", "7.1")


def test_class_that_hangs_twice_is_refused_at_once_for_a_time(
    tmp_path: Path, thing: JavaClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = ScriptedJava()

    def hang(_: JavaClass) -> str:
        eventually(lambda: java.hosts[-1].end is not None, within_s=60)
        java.hosts[-1].ensure_alive()
        return "none"

    java.version_of = hang
    known = facts(java, tmp_path / "facts")
    monkeypatch.setattr(shared_host, "_ANSWER_S", 0.01)
    for ask in (known.version, known.version, known.definitions):
        with pytest.raises(HostTimeoutError, match=r"^version of org\.example\.Thing was not answered within 0\.01 s"):
            ask(thing)
    assert len(java.asked) == 2, "the first time may be chance"
    java.version_of = lambda _: "7.1"
    monkeypatch.undo()
    assert known.version(JavaClass("org.example.Other", thing.location)) == "7.1"
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + module.AGAIN_S))
    assert known.version(thing) == "7.1"


def test_class_that_crashes_its_host_twice_is_refused_at_once_for_a_time(
    tmp_path: Path, thing: JavaClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that asks every few seconds would otherwise crash a host each time."""
    java = ScriptedJava()

    def crash(_: JavaClass) -> str:
        java.hosts[-1].end = "exit code 1"
        java.hosts[-1].ensure_alive()
        return "none"

    java.version_of = crash
    known = facts(java, tmp_path / "facts")
    for ask in (known.version, known.version, known.definitions):
        with pytest.raises(HostEndedError, match=r"^exit code 1"):
            ask(thing)
    assert len(java.hosts) == 2, "the first time may be chance"
    java.version_of = lambda _: "7.1"
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + module.AGAIN_S))
    assert known.version(thing) == "7.1"


def test_class_is_refused_after_the_system_killed_its_host_twice(tmp_path: Path, thing: JavaClass) -> None:
    """Where memory is short, the system kills a host, whatever it was asked."""
    java, kills = ScriptedJava(), [True, False, True, True]

    def answer(_: JavaClass) -> str:
        if kills.pop(0):
            java.hosts[-1].end, java.hosts[-1].is_killed_by_others = "signal 9 ended it", True
            java.hosts[-1].ensure_alive()
        return "7.1"

    java.version_of = answer
    known = facts(java, tmp_path / "facts")
    with pytest.raises(HostKilledError, match=r"^signal 9 ended it$"):
        known.version(thing)
    assert known.version(thing) == "7.1"
    os.utime(tmp_path / "thing.jar", ns=(1, 1))  # so that it is asked again
    known = facts(java, tmp_path / "facts")
    for _ in range(2):
        with pytest.raises(HostKilledError, match=r"^signal 9 ended it$"):
            known.version(thing)
    with pytest.raises(HostKilledError, match=r"the class is not asked for \d+ s more"):
        known.version(thing)
    assert kills == []


def ensure_said_while_another_hangs(
    known: ClassFacts, java: ScriptedJava, thing: JavaClass, answered: dict[JavaClass, str]
) -> None:
    """Ask for the version of a thing while that of another class, which is not among those `answered`, is awaited."""
    goes_on, is_asked = threading.Event(), threading.Event()

    def version_of(java_class: JavaClass) -> str:
        if java_class in answered:
            return answered[java_class]
        is_asked.set()
        assert goes_on.wait(60)
        return "8"

    java.version_of = version_of
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(known.version, JavaClass("org.example.Other", thing.location))
        assert is_asked.wait(60)
        try:
            assert pool.submit(known.version, thing).result(30) == "7.1"
        finally:
            goes_on.set()
        assert other.result(60) == "8"


def test_known_facts_of_a_class_are_returned_while_another_class_hangs(tmp_path: Path, thing: JavaClass) -> None:
    java = ScriptedJava()
    known = facts(java, tmp_path / "facts")
    assert known.version(thing) == "7.1"
    ensure_said_while_another_hangs(known, java, thing, {})


def test_host_is_asked_about_a_class_while_another_class_hangs(tmp_path: Path, thing: JavaClass) -> None:
    java = ScriptedJava()
    ensure_said_while_another_hangs(facts(java, tmp_path / "facts"), java, thing, {thing: "7.1"})


def test_error_about_a_class_is_not_cached(tmp_path: Path, thing: JavaClass) -> None:
    java, texts = ScriptedJava(), ["broken"]

    def version(java_class: JavaClass) -> str:
        if texts:
            raise JavaPluginError(texts.pop())
        return "7.1"

    java.version_of = version
    known = facts(java, tmp_path / "facts")
    with pytest.raises(JavaPluginError, match="broken"):
        known.version(thing)
    assert known.version(thing) == "7.1"


def test_learned_version_of_a_class_is_not_asked_for(tmp_path: Path, thing: JavaClass) -> None:
    java = ScriptedJava()
    known = facts(java, tmp_path / "facts")
    known.learn_version(thing, "8.0")
    assert (known.version(thing), java.hosts) == ("8.0", [])
