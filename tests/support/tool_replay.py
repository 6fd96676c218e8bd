"""Plays the requests of a tool for Kafka Connect against a worker.

The files are in `tests/fixtures/tools`: written down from the tools' sources, request by request. `reads` is a JSON
schema of what the tool takes from the answer, and `until` one of what it waits for by asking again; `shapes` has what
they refer to. `{{name}}` and others are filled in.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import jsonschema

from fencepost.testing import eventually

DIRECTORY = Path(__file__).parents[1] / "fixtures" / "tools"
TOOLS = ("kcctl", "terraform", "kafka_connect_ui", "strimzi")


def play(tool: str, url: str, values: Mapping[str, str]) -> int:
    """Play all operations of a tool; returns the number of requests. Raises AssertionError with what differs."""
    text = (DIRECTORY / f"{tool}.json").read_text()
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    script, count = json.loads(text), 0
    with httpx.Client(base_url=url, timeout=120) as client:
        for operation in script["operations"]:
            for number, request in enumerate(operation["requests"]):
                try:
                    _exchange(client, request, script)
                except Exception as error:
                    where = f"{script['tool']}, {operation['does']!r}, request {number + 1}"
                    raise AssertionError(f"{where}: {request['method']} {request['path']}: {error}") from error
                count += 1
    return count


def _exchange(client: httpx.Client, request: Mapping[str, Any], script: Mapping[str, Any]) -> None:
    """Ask once, or again after the statuses that the tool repeats, or until it has what it waits for."""

    def is_done() -> bool:
        answer = client.request(
            request["method"],
            request["path"],
            params=request.get("query"),
            headers=request["headers"],
            content=json.dumps(request["body"]) if "body" in request else None,
        )
        if answer.status_code in script["repeats"] and request.get("repeat", True):
            return False
        if answer.status_code == 404 and "until" in request:  # there is no status yet
            return False
        try:
            return _is_right(answer, request, script["shapes"])
        except (AssertionError, jsonschema.ValidationError) as error:  # asking again is of no use
            wrong.append(error)
            return True

    wrong: list[Exception] = []
    eventually(is_done, within_s=120)
    if wrong:
        raise wrong[0]


def _is_right(answer: httpx.Response, request: Mapping[str, Any], shapes: Mapping[str, Any]) -> bool:
    assert answer.status_code in request["status"], f"{answer.status_code}, not {request['status']}: {answer.text}"
    if "reads" in request:
        jsonschema.Draft202012Validator({"$defs": shapes, **request["reads"]}).validate(answer.json())
    if "until_status" in request:
        return bool(answer.status_code == request["until_status"])
    until = {"$defs": shapes, **request.get("until", {})}
    return jsonschema.Draft202012Validator(until).is_valid(answer.json() if "until" in request else None)
