"""Principals, grants and results for the tests of a secured Kafka."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import judge
from support.secured import Grant, SecuredKafka, parsed
from support.worker import Worker

GROUP = "secured"
CONNECTOR = "lines"
TOPIC = "lines-read"
# Passwords that nothing else looks like: wherever one is found, it was leaked.
USERS = {"worker": "hush-worker-4711", "maker": "hush-maker-4712", "reader": "hush-reader-4713"}
PLAIN_USERS = {"writer": "hush-writer-4714", "other": "hush-other-4715"}
ROLES = {"producer": "writer", "consumer": "reader", "admin": "maker"}
_DENIED = re.compile(r"AUTHORIZATION_FAILED")
SECRETS = (*USERS.values(), *PLAIN_USERS.values())


def granted(worker: Worker, name: str, config: Mapping[str, Any], *options: str) -> list[Grant]:
    """Return what `fencepost acls --commands` prints for a connector of a worker."""
    connector = worker.directory / f"{name}.json"
    connector.write_text(json.dumps({"name": name, "config": dict(config)}))
    done = CliRunner().invoke(app, ["acls", "--commands", *options, str(worker.file), str(connector)])
    assert done.exit_code == 0, done.output
    return parsed(done.output)


@dataclass
class Secured:
    """The broker, a worker, the connector that it runs, and what both were granted."""

    broker: SecuredKafka
    worker: Worker
    config: dict[str, Any]
    file: Path
    grants: list[Grant]


def settings(client: Callable[[str], Mapping[str, str]]) -> dict[str, str]:
    """Return a worker's client settings: a principal for each role; `client` returns those of a user."""
    prefixes = {"": "worker", **{f"{role}.": user for role, user in ROLES.items()}}
    return {f"{prefix}{key}": value for prefix, user in prefixes.items() for key, value in client(user).items()}


def append(secured: Secured, count: int) -> None:
    first = len(lines(secured))
    with secured.file.open("a") as out:
        out.writelines(f"line {first + n}\n" for n in range(count))


def lines(secured: Secured) -> list[str]:
    return secured.file.read_text().splitlines()


def is_delivered(secured: Secured) -> bool:
    """Whether as many records can be seen as lines were ever appended."""
    reader = CommittedReader(secured.broker.kafka.internal_servers, [secured.config["topic"]])
    return len(reader.read_all(30)) >= len(lines(secured))


def deliver(secured: Secured, count: int) -> None:
    """Append lines; all that were ever appended are in the topic, once and in order."""
    append(secured, count)
    eventually(lambda: is_delivered(secured), within_s=60)
    reader = CommittedReader(secured.broker.kafka.internal_servers, [secured.config["topic"]])
    expected = lines(secured)
    verdict = judge({"file": expected}, reader.read_all(30), sighting=lambda o: ("file", (o.value or b"").decode()))
    assert verdict.is_clean, verdict


def assert_names(text: str, grant: Grant) -> None:
    assert _DENIED.search(text), text
    assert re.search(rf"{re.escape(grant.name)}\b", text), text


@contextmanager
def revoked(secured: Secured, grant: Grant) -> Iterator[None]:
    secured.broker.revoke(grant)
    try:
        yield
    finally:
        secured.broker.grant([grant])


def trace_of(worker: Worker, connector: str) -> str:
    return next((t["trace"] for t in worker.status(connector).get("tasks", []) if t["state"] == "FAILED"), "")


def refused(worker: Worker, config: dict[str, object]) -> str:
    """Return the text of a refusal for want of a right; what was carried out nevertheless is undone."""
    answer = worker.create("extra", config)
    if answer.status_code == 201:
        worker.rest.delete("/connectors/extra")
    return answer.text if answer.status_code == 500 and _DENIED.search(answer.text) else ""


def denied_line(log: str) -> str:
    return next((line for line in log.splitlines() if _DENIED.search(line)), "")
