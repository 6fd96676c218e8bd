"""What tests of a running worker have in common: its settings, files, connectors."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fencepost.testing.source import PLUGIN_PATH
from support.worker import Worker

Produce = Callable[..., None]
"""Writes numbers, from the first to the last, to a topic."""
PLUGINS = str(Path(__file__).parent / "plugins")
GRACE_MS = 2000


def settings_of_tests(**more: str) -> dict[str, str]:
    """Return what the workers of these tests have in common."""
    return {
        "plugin.path": f"{PLUGIN_PATH},{PLUGINS}",
        "task.shutdown.graceful.timeout.ms": str(GRACE_MS),
        "spark.master": "local[8]",
        "slots.max": "3",
        **more,
    }


FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def file_source(file: Path, topic: str, **more: str) -> dict[str, Any]:
    """Return the config of a FileStreamSource; underscores in names of `more` stand for dots."""
    own = {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic}
    return own | {key.replace("_", "."): value for key, value in more.items()}


def numbered(first: int, last: int) -> list[str]:
    return [f"line {n}" for n in range(first, last + 1)]


def append(file: Path, lines: list[str]) -> None:
    with file.open("a") as out:
        out.write("".join(f"{line}\n" for line in lines))


def created(worker: Worker, name: str, config: Mapping[str, Any], **body: Any) -> None:
    """Create a connector; the answer says what is wrong where that fails."""
    answer = worker.create(name, config, **body)
    assert answer.status_code == 201, answer.text
