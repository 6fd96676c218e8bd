"""At which level a worker logs what Spark prints."""

import logging

import pytest

from fencepost.worker.host.driver import print_line


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("2026-11-26 00:31:07,214 ERROR fencepost.task.sink.loop task c-0: nothing is committed", logging.ERROR),
        ("2026-11-26 00:31:07,214 WARNING fencepost.task.slot.slot slot s lost its worker", logging.WARNING),
        ("2026-11-26 00:31:07,214 INFO fencepost.task.life.task_life task c-0 failed", logging.INFO),
        ("26/11/26 00:31:07 ERROR Executor: Exception in task 0.0", logging.INFO),  # the JVM's: of every job that ends
        ("ValueError: no such table", logging.INFO),
    ],
)
def test_lines_of_pythons_processes_keep_their_level(line: str, level: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        print_line(line)
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [(level, f"spark: {line}")]
