"""`/topics`: what is asked of the worker."""

import logging

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.topic_records import RecordQuery

from .fake import FakeConnector, FakeWorker


def test_records_are_requested_by_position_limit_and_partition(worker: FakeWorker, client: TestClient) -> None:
    assert client.get("/topics").json() == [{"name": "t", "partitions": 1}]
    assert client.get("/topics/a%2Fb/records").json()["records"][0]["value"]["text"] == "a/b"
    page = client.get("/connectors/file/topics/t/records", params={"from": "earliest", "limit": 2, "partition": 0})
    assert page.json()["next"] == "0:8"
    assert worker.calls == [("records", "a/b", RecordQuery()), ("records", "t", RecordQuery("earliest", 2, 0))]
    assert {client.get("/topics/t/records", params={"limit": n}).status_code for n in ("0", "501", "many")} == {404}
    assert client.get("/connectors/none/topics/t/records").status_code == 404


def test_reads_of_records_are_in_the_audit_log(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for path in ("/topics/t/records", "/connectors/file/topics/t/records", "/ui/connectors/file/topics/t"):
        caplog.clear()
        client.get(path)
        assert path in caplog.text


def test_the_page_of_a_topic_shows_its_first_and_last_records(worker: FakeWorker, client: TestClient) -> None:
    worker.connectors["file"] = FakeConnector({"name": "file"}, topics=["orders"])
    assert "/ui/connectors/file/topics/orders" in client.get("/ui/connectors/file").text
    page = client.get("/ui/connectors/file/topics/orders").text
    assert "First records" in page
    asked = {call[2] for call in worker.calls if call[0] == "records"}  # at the same time
    assert asked == {RecordQuery("earliest"), RecordQuery("latest")}
    assert "fencepost topic read orders --connector file --follow" in page
