import warnings

import pytest

from fencepost.rest import create_app

from .fake import FakeConnector, FakeWorker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette would like a renamed httpx
    from starlette.testclient import TestClient


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
