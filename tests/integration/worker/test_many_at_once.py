"""Many connectors at the same moment: the leader writes for several of them in one transaction."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from file_connector import append, file_source, numbered

from fencepost.testing import eventually
from support.worker import Worker

CONNECTORS = 24
CLIENTS = 8


@pytest.fixture
def names(worker: Worker, topic_name: str) -> Iterator[list[str]]:
    names = [f"{topic_name}-{number}" for number in range(CONNECTORS)]
    yield names
    for name in names:
        worker.rest.delete(f"/connectors/{name}")


def test_simultaneous_requests_get_their_own_answers(
    worker: Worker, names: list[str], tmp_path: Path, values: Callable[..., list[str]]
) -> None:
    def create(name: str) -> list[int]:
        file = tmp_path / f"{name}.txt"
        append(file, numbered(1, 10))
        config = file_source(file, name)
        created, again = worker.create(name, config), worker.create(name, config)
        return [created.status_code, again.status_code]

    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(create, names))
        assert answers == [[201, 409]] * CONNECTORS
        for name in names:
            worker.wait_for_tasks(name, "RUNNING")
        for name in names[::6]:
            assert values(name, 10) == numbered(1, 10)
        changed = list(clients.map(lambda name: _changed(worker, name), names))
        assert changed == ["7"] * CONNECTORS
        deleted = list(clients.map(lambda name: worker.rest.delete(f"/connectors/{name}").status_code, names))
        assert deleted == [204] * CONNECTORS
    eventually(lambda: not set(names) & set(worker.rest.get("/connectors?expand=status").json()))


def _changed(worker: Worker, name: str) -> str:
    """Change one setting; return what the answer to that request says of it."""
    config = worker.rest.get(f"/connectors/{name}/config").json()
    answer = worker.rest.put(f"/connectors/{name}/config", json={**config, "batch.size": "7"}).json()
    return str(answer["config"]["batch.size"]) if answer["name"] == name else f"answer of {answer['name']}"
