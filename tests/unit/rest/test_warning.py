"""Warnings about keys of a config are in a header, and in the answer of validate, and in no other body."""

import json

from starlette.testclient import TestClient

from fencepost.cluster.info import KeyWarning
from fencepost.rest.response import warning_header

GOOD = {"connector.class": "FileStreamSource", "file": "f"}
ODD = {**GOOD, "odd": "x"}


def test_each_change_of_a_config_answers_with_its_warnings(client: TestClient) -> None:
    answers = [
        client.post("/connectors", json={"name": "a", "config": ODD}),
        client.put("/connectors/b/config", json=ODD),
        client.put("/connectors/b/config", json={**ODD, "file": "g"}),
        client.patch("/connectors/b/config", json={"file": "h"}),
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 200, 200]
    assert [json.loads(each.headers["fencepost-warnings"]) for each in answers] == [["odd: nothing reads it"]] * 4
    assert all("warnings" not in each.json() for each in answers)


def test_there_is_no_header_without_warnings(client: TestClient) -> None:
    assert "fencepost-warnings" not in client.post("/connectors", json={"name": "a", "config": GOOD}).headers


def test_a_header_stays_small_and_in_ascii() -> None:
    found = warning_header([KeyWarning("k", f"ü{n:0100}") for n in range(100)])["fencepost-warnings"]
    texts = json.loads(found)
    assert found.isascii()
    assert len(found) < 4100
    assert texts[-1] == f"{100 - len(texts) + 1} more"
