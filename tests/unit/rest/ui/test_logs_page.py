"""The page with log events says which workers' events are not on it."""

import re
from dataclasses import replace
from typing import Any

from starlette.testclient import TestClient

from fencepost.cluster.figures import LogEvents, LogQuery, MissedEvents
from rest.fake import FakeWorker

ROWS = "/ui/connectors/file/logs/rows"


def test_a_worker_that_does_not_answer_is_named(worker: FakeWorker, client: TestClient, monkeypatch: Any) -> None:
    assert "not answer" not in client.get("/ui/connectors/file/logs").text
    answer = worker.logs

    def without_one(name: str, query: LogQuery) -> LogEvents:
        return replace(answer(name, query), missed=[MissedEvents("other:8083", "away"), MissedEvents("x", "dropped")])

    before = re.search(r"seen=(\w+)", client.get(ROWS).text)
    assert before is not None
    assert client.get(f"{ROWS}?seen={before[1]}").status_code == 204
    monkeypatch.setattr(worker, "logs", without_one)
    again = client.get(f"{ROWS}?seen={before[1]}")  # the events are the same, and the answer is another
    assert again.status_code == 200
    assert re.search(r"This worker does not answer.*<code>other:8083</code>\.", again.text)
    assert "it failed" in again.text
