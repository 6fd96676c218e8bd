"""The page of a connector that runs a streaming query."""

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.figures import ConnectorFigures, QueryFigures, TaskFigures
from rest.fake import FakeWorker


def live(client: TestClient, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch, query: QueryFigures | None) -> str:
    found = ConnectorFigures([TaskFigures(0, "w", "stream", query=query)], "stream")
    monkeypatch.setattr(worker.operations.probes, "figures", lambda names: dict.fromkeys(names, found))
    return " ".join(client.get("/ui/connectors/file/live").text.split())


def test_page_shows_batch_state_watermark_and_lag_of_a_query(
    client: TestClient, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = live(client, worker, monkeypatch, QueryFigures(7, 120.0, 400, 60_000, 3, {"orders": 12, "people": 0}))
    assert "Batch 7: 120 /s, 400 ms · 3 rows of state · watermark" in text
    assert "lag of <code>orders</code> 12 · lag of <code>people</code> 0" in text


def test_page_says_that_a_query_has_had_no_batch(
    client: TestClient, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No batch yet · 0 rows of state</td>" in live(client, worker, monkeypatch, QueryFigures())


def test_page_of_other_tasks_has_no_row_of_a_query(
    client: TestClient, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "rows of state" not in live(client, worker, monkeypatch, None)
