import warnings
from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal

from fencepost.rest import create_app

from .fake import FakeConnector, FakeWorker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette would like a renamed httpx
    from starlette.testclient import TestClient


@pytest.fixture(scope="session", autouse=True)
def _one_loop() -> Iterator[None]:
    """Lend one event loop to all clients: each request would begin another one, in a thread of its own."""
    with start_blocking_portal() as portal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(TestClient, "portal", portal)
        yield


@pytest.fixture
def worker() -> FakeWorker:
    """A worker with one running source connector, `file`, of two tasks."""
    fake = FakeWorker()
    config: dict[str, str | None] = {
        "name": "file",
        "connector.class": "FileStreamSource",
        "tasks.max": "2",
        "file": "/tmp/in",
    }
    fake.connectors["file"] = FakeConnector(config, topics=["lines"])
    return fake


@pytest.fixture
def client(worker: FakeWorker) -> TestClient:
    return TestClient(create_app(worker.operations), base_url="http://localhost:8083")
