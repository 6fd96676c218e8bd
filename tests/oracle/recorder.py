"""Requests to a worker, Kafka Connect's or ours, each kept with its answer."""

import json
from collections.abc import Callable
from typing import Any

import httpx

from fencepost.testing import eventually

STRING = "org.apache.kafka.connect.storage.StringConverter"

Json = Any


class Recorder:
    """Sends requests and keeps each with its answer. `longest_wait_s` is for what the worker does by itself."""

    longest_wait_s = 90.0

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=100)
        self._url = url
        self.exchanges: list[dict[str, Json]] = []

    def call(
        self, method: str, path: str, body: Json = None, *, raw: str | None = None, media: str = "application/json"
    ) -> Json:
        """`raw` is sent as it stands, `body` as JSON."""
        content = raw if raw is not None else (None if body is None else json.dumps(body))
        headers = {"Content-Type": media} if content is not None else {}
        answer = self._client.request(method, path, content=content, headers=headers)
        response = _parsed(answer.text)
        location = answer.headers.get("Location")
        self.exchanges.append(
            {
                "method": method,
                "path": path,
                "body": body if raw is None else None,
                "raw_body": raw,
                "media_type": media if content is not None else None,
                "status": answer.status_code,
                "response": response,
                "headers": {
                    "Content-Type": answer.headers.get("Content-Type"),
                    "Location": location.replace(self._url, "") if location else None,
                },
            }
        )
        print(answer.status_code, method, path)
        return response

    def peek(self, path: str) -> Json:
        """Asks without keeping the answer."""
        return _parsed(self._client.get(path).text)

    def wait_state(self, connector: str, state: str, tasks: int) -> None:
        def reached() -> bool:
            status = self.peek(f"/connectors/{connector}/status")
            found = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            return found == [state] * (1 + tasks)

        eventually(reached, within_s=self.longest_wait_s)

    def wait_reconfigured(self, connector: str) -> None:
        """Until one task runs with a new config. All that REST tells is RUNNING, which was true before, too."""
        self.wait_state(connector, "RUNNING", 1)

    def wait_topic(self, connector: str, topic: str) -> None:
        eventually(
            lambda: topic in self.peek(f"/connectors/{connector}/topics")[connector]["topics"],
            within_s=self.longest_wait_s,
        )

    def wait_gone(self, connector: str) -> None:
        """Until nothing is said of a deleted connector any more."""
        eventually(lambda: "error_code" in self.peek(f"/connectors/{connector}/status"), within_s=self.longest_wait_s)

    def wait_offset(self, connector: str, accept: Callable[[Json], bool]) -> None:
        eventually(
            lambda: accept(self.peek(f"/connectors/{connector}/offsets")["offsets"]), within_s=self.longest_wait_s
        )


def _parsed(text: str) -> Json:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
