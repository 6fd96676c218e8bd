"""`fencepost audit`: what it leaves behind."""

import pytest
from typer.testing import CliRunner

from fencepost.api.errors import ConnectError
from fencepost.cli.main import app
from fencepost.kafka.wire.requests import RequestClient
from fencepost.ledger.audit import Audit


def test_the_connections_of_an_audit_are_closed_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
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
