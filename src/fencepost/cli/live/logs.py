"""`fencepost logs`: the log events of a connector, of all workers, as they come."""

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.completion import connector_names
from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import JsonForm, TextOrJson
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect

_WAIT_MS = 20_000
_PAUSE_S = 1.0  # at least, between two requests that bring nothing
_NO_LOGS = "these workers keep no log events for REST, as those of Kafka Connect: read the log of the worker itself"
_REASONS = {
    "dropped": "{events} events were dropped: there were too many",
    "restarted": "the worker was started again; what it logged at its end is only in its own log",
    "away": "the worker does not answer; what it logs comes when it does",
}


@on_worker
def logs(
    connect: "Connect",
    name: Annotated[str, typer.Argument(help="A connector.", metavar="CONNECTOR", autocompletion=connector_names)],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is logged from now on.")] = False,
    task: Annotated[int | None, typer.Option(help="Only events of this task.", metavar="NUMBER")] = None,
    level: Annotated[str, typer.Option(help="Only events of this level or a higher one.")] = "INFO",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="How many events at first.")] = 100,
    output: JsonForm = TextOrJson.TEXT,
) -> None:
    """Show what a connector and its tasks have logged lately, on whichever worker, the oldest first.

    With --follow it goes on until Ctrl-C, also while workers are started again, and says what it has missed.
    """
    from fencepost.cli.connect import RefusedError
    from fencepost.config import ConfigError

    asked: dict[str, object] = {"level": level, "limit": lines} | ({} if task is None else {"task": task})
    away: set[str] = set()
    is_answered = True
    while True:
        began_s = time.monotonic()
        try:
            found = connect.get("connectors", name, "logs", **asked)
        except RefusedError as error:
            if error.status in (404, 405) and "after" not in asked and connect.find("connectors", name) is not None:
                raise ConfigError(f"{connect.access.named}: {_NO_LOGS}") from None
            raise
        except ConfigError as error:  # the worker that was asked is started again
            if "after" not in asked:
                raise
            if is_answered:
                typer.echo(printable(f"-- {error}; trying again"), err=True)
            is_answered = False
            time.sleep(_PAUSE_S)
            continue
        is_answered = True
        away = _print_missed(found["missed"], away)
        for event in found["events"]:
            typer.echo(json.dumps(event, ensure_ascii=False) if output is TextOrJson.JSON else line_of(event))
        if not follow:
            return
        asked |= {"after": found["cursor"], "wait_ms": _WAIT_MS, "limit": 1000}
        if not found["events"]:
            time.sleep(max(0.0, _PAUSE_S - (time.monotonic() - began_s)))


def line_of(event: dict[str, Any]) -> str:
    """Return an event as people read it, with its trace in the lines below."""
    subject = event["connector"] if event["task"] is None else f"{event['connector']}-{event['task']}"
    text = event["message"] if event["exception"] is None else f"{event['message']}\n{event['exception']}"
    return printable(f"{event['time']} {event['level']:<8} {subject} [{event['worker_id']}] {event['logger']}: {text}")


def _print_missed(missed: list[dict[str, Any]], away: set[str]) -> set[str]:
    """Say what is missing, and of a worker that is away once; returns those that are."""
    for one in missed:
        if one["reason"] != "away" or one["worker_id"] not in away:
            text = _REASONS.get(one["reason"], one["reason"]).format(**one)
            typer.echo(printable(f"-- {one['worker_id']}: {text}"), err=True)
    return {one["worker_id"] for one in missed if one["reason"] == "away"}
