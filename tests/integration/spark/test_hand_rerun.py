"""Writes by hand whose program is killed: what a rerun does, and what the killed one leaves open."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin import Admin
from fencepost.kafka.log import LogReader
from fencepost.spark.session import SparkRuntime
from fencepost.testing import eventually

_LINES = 6_000
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ALL = [*(f"line {n:06} {'.' * 200}" for n in range(_LINES - 1)), "last"]
_PROGRAM = Path(__file__).with_name("hand_program.py")
_WITHIN_S = 240

Program = subprocess.Popen[str]
Start = Callable[..., Program]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file that Spark cuts in three on one core, in four on four."""
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in _ALL))
    return file


@pytest.fixture
def topic(kafka: EmbeddedKafka, topic_name: str) -> str:
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).create_topic(topic_name, partitions=1, replication=1)
    return topic_name


@pytest.fixture
def start(kafka: EmbeddedKafka, topic: str, lines: Path) -> Iterator[Start]:
    """Start a program with `master`, `gate` and options of the write (`write_id`)."""
    with contextlib.ExitStack() as stack:

        def started(master: str, *, gate: Path | None = None, **options: str) -> Program:
            conf = {
                "spark.sql.files.maxPartitionBytes": str(int(lines.stat().st_size * 0.4)),
                "spark.sql.files.openCostInBytes": "1",
                _BATCH: "100",
            }
            given = {
                "bootstrap": kafka.bootstrap_servers,
                "master": master,
                "files": str(lines),
                "conf": conf,
                "partitions": 2,
                "gate": None if gate is None else str(gate),
                "options": {"topic": topic} | {k.replace("_", "."): v for k, v in options.items()},
            }
            program = subprocess.Popen(
                [sys.executable, str(_PROGRAM), json.dumps(given)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )
            stack.callback(_kill, program)
            return program

        yield started


def test_a_rerun_that_is_cut_elsewhere_is_refused_and_one_that_is_not_writes_the_rest(
    kafka: EmbeddedKafka, topic: str, start: Start, tmp_path: Path
) -> None:
    """Spark cuts a scan by the number of its cores: partitions that are left out are not those that were written."""
    gate = tmp_path / "gate"
    killed = start("local[1]", gate=gate, write_id=topic, write_partitions="2")
    first = eventually(lambda: _committed(kafka, topic), within_s=_WITHIN_S)
    _kill(killed)
    gate.touch()

    refused = _output(start("local[4]", gate=gate, write_id=topic, write_partitions="2"))
    assert "written" not in refused.splitlines()[-1:]
    assert f"partition 0 had {len(first)} rows" in refused
    assert _committed(kafka, topic) == first

    assert _output(start("local[1]", gate=gate, write_id=topic, write_partitions="2")).splitlines()[-1] == "written"
    assert sorted(_committed(kafka, topic)) == sorted(_ALL)


def test_a_rerun_of_another_write_is_refused_with_what_differs(
    kafka: EmbeddedKafka, topic: str, runtime: SparkRuntime
) -> None:
    def write(rows: str, **options: str) -> None:
        frame = runtime.session.range(0, 20, 1, 2).selectExpr(f"{rows} as value")
        _write(kafka, frame, **{"topic": topic, "write.id": topic, "write.partitions": "2"} | options)

    write("cast(id as string)")
    with pytest.raises(Exception, match=rf"it was begun with topic={topic}, and now it is topic=other"):
        write("cast(id as string)", topic="other")
    with pytest.raises(Exception, match="its columns were struct<value:string>, and now they are struct<value:binary>"):
        write("cast(cast(id as string) as binary)")
    with pytest.raises(Exception, match="partition 1 has other rows than the 10 that are committed, or in another or"):
        write("cast(if(id < 10, id, 29 - id) as string)")
    write("cast(id as string)")
    assert sorted(map(int, _committed(kafka, topic))) == list(range(20))


def test_what_a_killed_write_without_an_id_left_open_is_ended_by_the_next_write(
    kafka: EmbeddedKafka, topic: str, start: Start, runtime: SparkRuntime, tmp_path: Path
) -> None:
    killed = start("local[1]", gate=tmp_path / "gate")
    first = eventually(lambda: _committed(kafka, topic), within_s=_WITHIN_S)
    eventually(lambda: _open(kafka), within_s=_WITHIN_S)
    _kill(killed)
    assert _open(kafka)

    _write(kafka, runtime.session.range(10).selectExpr("cast(id as string) as value"), topic=topic)
    assert _open(kafka) == set()
    assert len(_committed(kafka, topic)) == len(first) + 10


def _write(kafka: EmbeddedKafka, frame: Any, **options: str) -> None:
    writer = frame.write.format("fencepost").mode("append").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    writer.options(**options).save()


def _open(kafka: EmbeddedKafka) -> set[str]:
    """Return the transactional ids of writes by hand with an open transaction."""
    found = Admin({"bootstrap.servers": kafka.bootstrap_servers}).transactions(["Ongoing"])
    return {t.transactional_id for t in found if t.transactional_id.startswith("fencepost-write-")}


def _committed(kafka: EmbeddedKafka, topic: str) -> list[str]:
    """Return the values before the first open transaction."""
    values: list[str] = []
    reader = LogReader({"bootstrap.servers": kafka.bootstrap_servers}, topic)
    reader.read_to_end(30, lambda record: values.append((record.value or b"").decode()), waits=False)
    reader.close()
    return values


def _output(program: Program) -> str:
    return program.communicate(timeout=_WITHIN_S)[0]


def _kill(program: Program) -> None:
    """Kill the program with the JVM and the Python workers below it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.communicate(timeout=_WITHIN_S)  # Python workers hold its output for as long as they live
