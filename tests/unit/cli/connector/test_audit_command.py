"""`fencepost audit`: what it leaves behind."""

import pytest
from typer.testing import CliRunner

from fencepost.api.errors import ConnectError
from fencepost.cli.main import app
from fencepost.kafka.wire.requests import RequestClient
from fencepost.ledger.audit import Audit
from support.http_answers import Answer, HttpAnswers


def test_audit_uses_the_workers_kafka_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers: list[str] = []

    def run(audit: Audit, *_: object) -> None:
        brokers.append(str(audit._conf["bootstrap.servers"]))
        raise ConnectError("enough")

    config = {"connector.class": "FileStreamSource", "ledger.topic": "its-ledger"}
    answers = {"/connectors/lines/config": config, "/kafka": {"bootstrap_servers": "127.0.0.1:19092"}}
    monkeypatch.setattr(Audit, "run", run)
    with HttpAnswers(lambda asked: Answer(answers[asked.path])) as served:
        CliRunner().invoke(app, ["audit", "lines", "--url", served.url])
    assert brokers == ["127.0.0.1:19092"]


def test_audit_closes_its_connections_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[RequestClient] = []
    made: list[Audit] = []

    def run(audit: Audit, *_: object) -> None:
        made.append(audit)
        raise ConnectError("no broker answers")

    monkeypatch.setattr(Audit, "run", run)
    monkeypatch.setattr(RequestClient, "close", lambda client: closed.append(client))
    done = CliRunner().invoke(app, ["audit", "lines", "--ledger", "its-ledger", "--bootstrap", "127.0.0.1:1"])
    assert (done.exit_code, "no broker answers" in done.output) == (2, True)
    assert made[0]._admin._requests.client in closed
