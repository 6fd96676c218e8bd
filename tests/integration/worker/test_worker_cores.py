"""Slots and DataFrame jobs on few cores: neither waits for the other for ever, and what does not fit says so."""

from pathlib import Path

import pytest
from file_connector import settings_of_tests

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.worker import Worker


@pytest.mark.timeout(1_800)
def test_slots_and_splits_share_two_cores(kafka: EmbeddedKafka, tmp_path: Path, topic_name: str):
    settings = settings_of_tests(**{"spark.master": "local[2]", "slots.max": "4"})
    directory = tmp_path / "spool"
    directory.mkdir()
    with Worker(kafka.bootstrap_servers, tmp_path, settings, group=topic_name) as worker:
        for n in (0, 1):
            file = tmp_path / f"{n}.txt"
            file.write_text("line\n")
            config = {"connector.class": "FileStreamSource", "file": str(file), "topic": f"{topic_name}-{n}"}
            worker.create(f"own-slot-{n}", {**config, "slot.dedicated": "true"})
        spool = {
            "connector.class": "SpoolDirectorySource",
            "input.path": str(directory),
            "topic": f"{topic_name}-spool",
        }
        # The header is read by a Spark job, and whether parts are exact is known only after it.
        worker.create("spool", {**spool, "reader.header": "true", "split.rows.max": "2"})
        for part in range(3):
            (directory / f"{part}.csv").write_text(f"line\nrow {part}\n")

        reader = CommittedReader(kafka.bootstrap_servers, [f"{topic_name}-spool"])
        assert eventually(lambda: len(reader.read_all(30)) == 3, within_s=120)
        states = eventually(lambda: _settled(worker), within_s=60)
        assert states == ["RUNNING", "UNASSIGNED"], "one core stays free for splits"
        waiting = next(t for n in (0, 1) for t in worker.status(f"own-slot-{n}")["tasks"] if t["state"] == "UNASSIGNED")
        assert "Spark offers 2 cores" in waiting["trace"]
        assert "spark.master" in waiting["trace"]

        running = next(n for n in (0, 1) if worker.task_states(f"own-slot-{n}") == ["RUNNING"])
        worker.rest.delete(f"/connectors/own-slot-{running}")
        worker.wait_for_tasks(f"own-slot-{1 - running}", "RUNNING")


def _settled(worker: Worker) -> list[str]:
    states = sorted(state for n in (0, 1) for state in worker.task_states(f"own-slot-{n}"))
    return states if "RUNNING" in states and len(states) == 2 else []
