"""What tests of a running worker do with files and connectors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.worker import Worker

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
