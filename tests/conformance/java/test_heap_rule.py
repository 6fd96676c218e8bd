"""When a host collects its garbage, and how large it makes its heap: its own classes, in a JVM with a clock of ours."""

import os
import subprocess
from collections.abc import Callable, Sequence

import pytest

from fencepost.builtin.java.host_jar import ensure_jar
from fencepost.builtin.java.start import jvm_options
from fencepost.embedded.java import find_java
from support.java_program import PROGRAMS, QUICK_JVM, ensure_compiler

Answer = Callable[..., list[str]]
Ticks = Callable[..., list[list[str]]]
TICK_S = 2


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """Return what runs `HeapTicks` with options of a JVM and arguments, and returns its lines."""
    ensure_compiler()
    java, classes = find_java(), tmp_path_factory.mktemp("classes")
    classpath = os.pathsep.join([str(classes), str(ensure_jar(java))])  # not as a program alone: it shares a package

    def run(options: Sequence[str], *arguments: str, lines: str = "") -> list[str]:
        command = [str(java.path), *options, "-cp", classpath, *arguments]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(classes)]
    run(["-cp", classpath, *compiler, str(PROGRAMS / "HeapTicks.java")])
    return lambda *arguments, lines="", options=QUICK_JVM: run(
        options, "fencepost.host.HeapTicks", *arguments, lines=lines
    )


@pytest.fixture
def ticks(program: Answer) -> Ticks:
    """Return the answers of `HeapTicks` to each stretch of time."""
    return lambda *stretches: [line.split() for line in program(lines="\n".join(stretches))]


def part_of_time(found: Sequence[str], takes_ms: int) -> float:
    spent_s = sum(int(each[0]) for each in found) * takes_ms / 1000
    return spent_s / (TICK_S * len(found) + spent_s)


def test_heap_does_not_grow_during_a_start(ticks: Ticks) -> None:
    assert ticks("ticks=2 busy=50", "ticks=1 busy=9", "ticks=2 busy=50") == [["0S", "0S"], ["0S"], ["0S"] * 2]


def test_heap_is_large_while_collections_are_frequent(ticks: Ticks) -> None:
    busy, quiet, still_busy, calm = ticks(
        "ticks=3 busy=10", "ticks=2 large_busy=1", "ticks=9 large_busy=3", "ticks=4 large_busy=1"
    )
    assert busy == ["0S", "0S", "1L"]
    assert quiet == ["0L", "0L"]
    assert {each[1] for each in still_busy} == {"L"}
    assert calm == ["0L", "0L", "1S", "0S"]


def test_a_heap_that_has_grown_too_large_is_corrected_at_once(ticks: Ticks) -> None:
    """What is in use is known from the last full collection, which may be long ago."""
    assert ticks("ticks=3 busy=10 too_large=1") == [["0S", "0S", "2L"]]


def test_heap_with_new_objects_is_collected_every_ten_seconds(ticks: Ticks) -> None:
    (found,) = ticks("ticks=20 new_mb=2")
    assert [number for number, each in enumerate(found, 1) if each == "1S"] == [5, 10, 15, 20]


def test_heap_without_new_objects_is_collected_every_minute(ticks: Ticks) -> None:
    """Its memory would stay with the host for as long as nobody uses it."""
    (found,) = ticks("ticks=60")
    assert [number for number, each in enumerate(found, 1) if each == "1S"] == [30, 60]


@pytest.mark.parametrize("takes_ms", [5, 1500])
@pytest.mark.parametrize(
    ("load", "most"),
    [
        ("busy=99 large_busy=99 new_mb=500", 1 / 200),
        ("busy=99 large_busy=0 new_mb=500", 1 / 50),  # as soon as the heap is large, it looks too large
        ("busy=99 large_busy=99 new_mb=500 too_large=1", 1 / 20),
    ],
)
def test_share_of_time_in_collections_is_limited_under_any_load(
    ticks: Ticks, load: str, most: float, takes_ms: int
) -> None:
    (found,) = ticks(f"ticks=3000 takes_ms={takes_ms} {load}")
    assert 0 < part_of_time(found, takes_ms) < most


def test_collections_resume_within_an_hour_after_a_stop_during_one(ticks: Ticks) -> None:
    day_ms, hour = 24 * 3600 * 1000, 3600 // TICK_S
    (_, stopped, later) = ticks("ticks=29", f"ticks=1 takes_ms={day_ms}", f"ticks={hour} new_mb=1")
    assert stopped == ["1S"]
    assert later.count("1S") == 1


def test_free_part_of_the_heap_is_about_300_mb_for_any_usage(program: Answer) -> None:
    """Of a heap with little in use, that would be nearly all; of one with much, it is what a host at rest has."""
    percents = {0: 85, 40: 85, 100: 75, 400: 42, 1000: 23, 9000: 20}
    assert program(*map(str, percents)) == [str(each) for each in percents.values()]


@pytest.mark.parametrize(
    ("chosen", "is_ours"),
    [
        ("", True),
        ("-Xmx512m", True),
        ("-Xms256m -Xmx2g", True),
        ("-XX:NewRatio=10", True),
        ("-XX:MaxHeapFreeRatio=30", False),
        ("-XX:MaxHeapFreeRatio=10", False),
        ("-XX:MinHeapFreeRatio=50", False),
        ("-Xmn1m", False),
        ("-XX:MaxNewSize=8m", False),
        ("-XX:+UseG1GC", False),
        ("-XX:+UseParallelGC", False),
        ("-XX:+DisableExplicitGC", False),  # a heap that has become large would stay so
    ],
)
def test_heap_settings_of_the_user_disable_the_heap_rule(program: Answer, chosen: str, is_ours: bool) -> None:
    options = [*jvm_options(find_java(), chosen.split()), *chosen.split()]
    assert program("ours", options=options) == [str(is_ours).lower()]
