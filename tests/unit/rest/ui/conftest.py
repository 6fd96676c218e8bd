import pytest
from starlette.testclient import TestClient

from fencepost.rest import create_app
from rest.fake import FakeWorker


@pytest.fixture
def client(worker: FakeWorker) -> TestClient:
    """A browser that has loaded a page, and so has a token."""
    made = TestClient(create_app(worker.operations), base_url="http://localhost:8083")
    made.get("/ui")
    return made
