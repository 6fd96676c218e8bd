"""Slots on real Spark: they start, die and end one by one; secrets stay off the command line."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import slot_entry
from secret_values import SECRET

from fencepost.spark.session import SparkError
from fencepost.spark.session.session import SparkRuntime
from fencepost.spark.slot.job import SlotJobs, signal_of
from fencepost.testing import eventually
from support.timing import fastest_s


class Slots:
    """SlotJobs of `slot_entry.run`, with the ends that were reported."""

    def __init__(self, runtime: SparkRuntime, directory: Path) -> None:
        self.ends: dict[str, list[Exception | None]] = {}
        self.directory = directory
        self.jobs = SlotJobs(runtime, slot_entry.run, self._on_end)

    def _on_end(self, slot_id: str, error: Exception | None) -> None:
        self.ends.setdefault(slot_id, []).append(error)

    def launch(self, slot_id: str, **spec: str) -> dict[str, Any]:
        """Launch and wait until the slot has said who it is."""
        before = len(self.said(slot_id))
        self.jobs.launch(slot_id, json.dumps({"file": str(self.directory / slot_id), **spec}))
        return eventually(lambda: self.said(slot_id)[before:])[0]

    def said(self, slot_id: str) -> list[dict[str, Any]]:
        file = self.directory / slot_id
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def stop(self, slot_id: str) -> None:
        (self.directory / f"{slot_id}.stop").touch()


@pytest.fixture
def slots(runtime: SparkRuntime, tmp_path: Path) -> Iterator[Slots]:
    made = Slots(runtime, tmp_path)
    yield made
    for slot_id in made.jobs.running:
        made.jobs.cancel(slot_id)
    eventually(lambda: not made.jobs.running, within_s=60)


def test_python_workers_of_a_local_master_search_no_zip_archive(runtime: SparkRuntime) -> None:
    """Planning a read or a write takes a process of its own each, whose module search path is the same."""
    searched = runtime.context.parallelize([1], 1).map(lambda _: os.environ.get("PYTHONPATH", "")).collect()[0]
    assert ".zip" not in searched


def test_local_mode_offers_nominal_cores(runtime: SparkRuntime) -> None:
    assert runtime.is_alive
    assert runtime.cores == 64


def test_python_workers_import_pyspark_where_it_is_compiled(runtime: SparkRuntime) -> None:
    def files(_: object) -> list[str]:
        import py4j
        import pyspark

        return [pyspark.__file__, py4j.__file__]

    found = runtime.context.parallelize([1], 1).flatMap(files).collect()
    assert [file for file in found if ".zip" in file] == []


def test_a_second_runtime_is_refused_when_one_runs(runtime: SparkRuntime) -> None:
    with pytest.raises(SparkError, match="already runs Spark"):
        SparkRuntime({}).start()


def test_secret_reaches_the_slot_and_neither_the_command_line_nor_the_conf(runtime: SparkRuntime, slots: Slots) -> None:
    assert slots.launch("a")["secret"] == SECRET
    jvm = psutil.Process(runtime.jvm_pid)
    for process in [jvm, *jvm.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            assert SECRET not in " ".join(process.cmdline())
    assert SECRET not in str(runtime.context.getConf().getAll())
    assert SECRET not in str(runtime.context.environment)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_only_a_killed_slot_ends_with_its_signal_and_can_be_launched_again(
    slots: Slots, number: signal.Signals
) -> None:
    victim, other = slots.launch("a"), slots.launch("b")
    os.kill(victim["pid"], number)
    error = eventually(lambda: slots.ends.get("a"))[0]
    assert signal_of(error) == number.name, str(error)
    assert slots.jobs.running == {"b"}
    assert slots.launch("a")["pid"] != victim["pid"]
    assert psutil.pid_exists(other["pid"])


def test_process_ends_without_error_when_the_entry_returns(slots: Slots) -> None:
    one = slots.launch("a")
    slots.stop("a")
    eventually(lambda: slots.ends.get("a") == [None])
    eventually(lambda: not psutil.pid_exists(one["pid"]), within_s=60)


def test_end_names_the_error_that_the_entry_raised(slots: Slots) -> None:
    slots.launch("a", error="no such table")
    assert str(eventually(lambda: slots.ends.get("a"))[0]) == "ValueError: no such table"


def test_cancel_ends_the_job_and_the_process(slots: Slots) -> None:
    one = slots.launch("a")
    slots.jobs.cancel("a")
    eventually(lambda: slots.ends.get("a") == [None], within_s=60)
    eventually(lambda: not psutil.pid_exists(one["pid"]), within_s=60)


def test_waiting_for_cancelled_slots_uses_no_processor_time(runtime: SparkRuntime, slots: Slots) -> None:
    """Spark kills them a second or two later. Three threads that ask without a pause would take as many each."""
    jvm = psutil.Process(runtime.jvm_pid)

    def spent_s() -> float:
        pids = [slots.launch(slot)["pid"] for slot in "abc"]
        before = jvm.cpu_times()
        for slot in "abc":
            slots.jobs.cancel(slot)
        eventually(lambda: not slots.jobs.running and not any(map(psutil.pid_exists, pids)), within_s=60)
        after = jvm.cpu_times()
        return after.user + after.system - before.user - before.system

    assert fastest_s(spent_s, below_s=1.5) < 1.5


def test_cancel_right_after_launch_leaves_nothing_running(slots: Slots) -> None:
    slots.jobs.launch("a", json.dumps({"file": str(slots.directory / "a")}))
    slots.jobs.cancel("a")
    eventually(lambda: slots.ends.get("a") == [None], within_s=60)


def test_launching_a_running_slot_is_refused(slots: Slots) -> None:
    slots.launch("a")
    with pytest.raises(ValueError, match="is running"):
        slots.jobs.launch("a", "{}")


def test_jvm_and_slots_die_with_a_killed_driver(tmp_path: Path) -> None:
    file = tmp_path / "s"
    script = Path(__file__).with_name("spark_parent.py")
    driver = subprocess.Popen([sys.executable, str(script), str(file)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    with driver:
        jvm = psutil.Process(int(driver.stdout.readline()))
        slot = psutil.Process(json.loads(file.read_text())["pid"])
        driver.kill()
    eventually(lambda: not jvm.is_running(), within_s=60)
    eventually(lambda: not slot.is_running(), within_s=60)
