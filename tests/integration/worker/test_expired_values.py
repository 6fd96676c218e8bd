"""Tasks whose configs refer to values that expire."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from file_connector import created

from fencepost.testing import eventually
from support.worker import Worker

LAST = 500


class Expiring:
    """A connector that leaves a line in a file for each start; the file's name is looked up, and expires."""

    def __init__(self, worker: Worker, directory: Path, name: str, key: str, **more: str) -> None:
        self._first = directory / name
        config = {"connector.class": "CountingConnector", "topic": name, "last": str(LAST)}
        created(worker, name, {**config, "witness": f"${{expiring:{self._first}:{key}}}", **more})

    @property
    def starts(self) -> tuple[int, int]:
        """Return how often a task was started with the first value, and with the second."""
        files = self._first, Path(f"{self._first}-second")
        first, second = (file.read_text().count("start") if file.exists() else 0 for file in files)
        return first, second


@pytest.fixture
def expiring(worker: Worker, topic_name: str, tmp_path: Path) -> Iterator[Callable[..., Expiring]]:
    made: list[str] = []

    def make(kind: str, key: str = "changing", **more: str) -> Expiring:
        made.append(f"{topic_name}-{kind}")
        return Expiring(worker, tmp_path, made[-1], key, **more)

    yield make
    for name in made:
        worker.rest.delete(f"/connectors/{name}")


def test_a_task_starts_once_with_a_new_value_when_the_old_value_has_expired(
    expiring: Callable[..., Expiring], topic_name: str, values: Callable[..., list[str]]
) -> None:
    clock = expiring("clock", "same")
    changing, kept = expiring("changing"), expiring("kept", **{"config.action.reload": "none"})
    eventually(lambda: changing.starts[1] and kept.starts[0], within_s=150)
    before = clock.starts[0]
    eventually(lambda: clock.starts[0] >= before + 2, within_s=150)  # so much time has passed
    assert (changing.starts, kept.starts) == ((1, 1), (1, 0))
    for kind in ("clock", "kept", "changing"):
        assert values(f"{topic_name}-{kind}", LAST, within_s=150.0) == [str(n) for n in range(1, LAST + 1)]
