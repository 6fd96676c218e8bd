"""The state that a change of offsets leaves, and what is said when it, or the way back from it, fails."""

from typing import Any

import pytest

from fencepost.api.errors import ConnectError
from fencepost.cli.connect import Access, RefusedError
from fencepost.cli.connector.offsets import OffsetMove, Options
from fencepost.config import ConfigError

OFFSETS = {"offsets": [{"partition": {"file": "a"}, "offset": {"line": 1}}]}
NOBODY = ConfigError("no worker answers at http://w")


class Scripted:
    """Workers with one connector, some of whose answers are errors, by the last part of the path."""

    def __init__(self, **errors: Exception) -> None:
        self.errors = errors
        self.state = "RUNNING"
        self.access = Access("http://w", "context c (http://w)")

    def get(self, *parts: str, **_: object) -> Any:
        status = {"name": "c", "connector": {"state": self.state}, "tasks": [], "type": "source"}
        if parts == ("connectors",):
            info = {"name": "c", "config": {"connector.class": "X"}, "tasks": [], "type": "source"}
            return {"c": {"info": info, "status": status}}
        return OFFSETS if parts[-1] == "offsets" else status if parts[-1] == "status" else {"config": {}, "name": "c"}

    def find(self, *parts: str, **parameters: object) -> Any:
        return self.get(*parts, **parameters)

    def put(self, *parts: str, **_: object) -> None:
        self._act(parts[-1])
        self.state = {"stop": "STOPPED", "pause": "PAUSED", "resume": "RUNNING"}[parts[-1]]

    def delete(self, *parts: str) -> dict[str, str]:
        self._act("offsets")
        return {"message": "reset"}

    def _act(self, what: str) -> None:
        if what in self.errors:
            raise self.errors[what]


def said_by(connect: Any, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises((ConfigError, ConnectError)):
        OffsetMove(connect, "c", Options(is_confirmed=True), lambda _: None).reset()
    return capsys.readouterr().err


def test_connector_that_could_not_be_resumed_after_an_offset_change_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = said_by(Scripted(resume=NOBODY), capsys)
    assert "c may be STOPPED still: run `fencepost resume c`" in said


@pytest.mark.parametrize(
    ("error", "is_known"),
    [(NOBODY, False), (RefusedError(500, "Timed out"), False), (RefusedError(400, "No such partition"), True)],
    ids=repr,
)
def test_failed_offset_change_reports_if_offsets_were_changed(
    error: Exception, is_known: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    connect = Scripted(offsets=error)
    said = said_by(connect, capsys)
    assert ("No offset was changed." in said) is is_known
    assert ("It is not known whether offsets were changed" in said) is not is_known
    assert connect.state == "RUNNING"


def test_offsets_are_kept_when_the_connector_does_not_stop(capsys: pytest.CaptureFixture[str]) -> None:
    assert "No offset was changed." in said_by(Scripted(stop=NOBODY), capsys)


@pytest.mark.parametrize(
    ("before", "meanwhile", "after"),
    [
        ("RUNNING", "PAUSED", "PAUSED"), ("RUNNING", "STOPPED", "STOPPED"), ("PAUSED", "RUNNING", "RUNNING"),
        ("STOPPED", "RUNNING", "RUNNING"), ("PAUSED", "UNASSIGNED", "PAUSED"),
    ],
)  # fmt: skip
def test_offset_change_restores_a_state_that_was_changed_during_the_question(
    before: str, meanwhile: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect: Any = Scripted()
    connect.state = before
    monkeypatch.setattr("typer.confirm", lambda *_, **__: setattr(connect, "state", meanwhile))
    OffsetMove(connect, "c", Options(), lambda _: None).reset()
    assert connect.state == after
