"""`fencepost top` and `fencepost logs`: what runs, as it goes on."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.on_worker import connector_names, on_worker
from fencepost.cli.output import JsonForm, Output, Printer, TextOrJson, print_json
from fencepost.cluster.glance import RETRYING, STANDS_STILL, WORST_FIRST, task_word
from fencepost.config.version import matches
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from rich.table import Table

    from fencepost.cli.connect import Connect


class Order(StrEnum):
    """What rows are sorted by; what needs attention comes first."""

    NAME = "name"
    STATE = "state"
    RATE = "rate"
    LAG = "lag"
    AGE = "age"
    OPEN = "open"
    ERRORS = "errors"
    MEMORY = "memory"


@dataclass(frozen=True)
class Task:
    """A task's state, and its figures; none if nothing is known of them."""

    connector: str
    status: Mapping[str, Any]
    figures: Mapping[str, Any]
    rate: float | None
    now_ms: float

    @property
    def word(self) -> str:
        """Return the word for its state."""
        return task_word(self.status, self.figures)

    @property
    def memory_bytes(self) -> int | None:
        """Return the memory of its slot, which others may share, with that of the slot's JVM."""
        slot = self.figures.get("slot") or {}
        sizes = [slot.get("resident_bytes"), slot.get("host_resident_bytes")]
        return sum(size for size in sizes if size) or None

    def age_s(self, key: str) -> float | None:
        """Return how long ago a time was."""
        at_ms = self.figures.get(key)
        return None if at_ms is None else max(0.0, (self.now_ms - at_ms) / 1000)

    def as_data(self) -> dict[str, Any]:
        """Return it for programs."""
        named = {"connector": self.connector, "task": self.status["id"], "state": self.status["state"]}
        rest = {key: value for key, value in self.figures.items() if key not in ("id", "worker_id")}
        rate = None if self.rate is None else round(self.rate, 1)
        return {**named, "worker_id": self.status.get("worker_id"), "records_per_second": rate, **rest}


def tasks_of(
    answer: Mapping[str, Any], before: Mapping[str, Any], took_s: float, now_ms: float, pattern: str = "*"
) -> list[Task]:
    """Return the tasks of an answer of `/connectors?expand=status&expand=figures`; the one before gives the rates."""
    last = {(name, each["id"]): each for name, one in before.items() for each in _figures(one)}
    found = []
    for name, one in answer.items():
        if matches(name, pattern):
            figures = {each["id"]: each for each in _figures(one) if each.get("kind") is not None}
            for status in one["status"]["tasks"]:
                own = figures.get(status["id"], {})
                found.append(Task(name, status, own, _rate(own, last.get((name, status["id"]), {}), took_s), now_ms))
    return found


def _figures(one: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (one.get("figures") or {}).get("tasks") or ()


def _rate(now: Mapping[str, Any], before: Mapping[str, Any], took_s: float) -> float | None:
    """Return records a second; None if it is not known, or the task was started again between."""
    key = "records_read_total"
    if now.get(key) is None or before.get(key) is None or now["started_ms"] != before["started_ms"] or took_s <= 0:
        return None
    return max(0.0, float(now[key] - before[key]) / took_s)


_ATTENTION = {word: place for place, word in enumerate(WORST_FIRST)}
_KEYS: Mapping[Order, Callable[[Task], Any]] = {
    Order.NAME: lambda task: 0,
    Order.STATE: lambda task: _ATTENTION.get(task.word, 9),
    Order.RATE: lambda task: -(task.rate or 0),
    Order.LAG: lambda task: -(task.figures.get("lag_max") or 0),
    Order.AGE: lambda task: -(task.age_s("last_record_ms") or 0),
    Order.OPEN: lambda task: -(task.age_s("open_since_ms") or 0),
    Order.ERRORS: lambda task: -(task.figures.get("errors_total") or 0),
    Order.MEMORY: lambda task: -(task.memory_bytes or 0),
}


def ordered(tasks: Sequence[Task], order: Order) -> list[Task]:
    """Return tasks in an order, those that are alike by name and number."""
    return sorted(tasks, key=lambda task: (_KEYS[order](task), task.connector, task.status["id"]))


HEADINGS = ("CONNECTOR", "TASK", "STATE", "WORKER", "REC/S", "LAG", "LAST", "OPEN", "OPEN FOR", "ERRORS", "SLOT MEMORY")


def cells(task: Task) -> tuple[str, ...]:
    """Return a row; `-` is for what is not known, or does not apply."""
    figures = task.figures
    slot = figures.get("slot") or {}
    return (
        task.connector,
        str(task.status["id"]),
        task.word,
        task.status.get("worker_id") or "-",
        "-" if task.rate is None else f"{task.rate:,.0f}",
        _count(figures.get("lag_max")),
        _age(task.age_s("last_record_ms")),
        _count(figures.get("open_records")),
        _age(task.age_s("open_since_ms")),
        _count(figures.get("errors_total")),
        "-" if task.memory_bytes is None else f"{slot['id']} {task.memory_bytes >> 20:,} MB",
    )


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


_EXPANSIONS = ("status", "figures")
_STYLES = {
    "FAILED": "bold red",
    STANDS_STILL: "bold red reverse",
    RETRYING: "yellow",
    "UNASSIGNED": "magenta",
    "PAUSED": "yellow",
}


@on_worker
def top(
    connect: "Connect",
    pattern: Annotated[str, typer.Argument(help="Connectors by name; * stands for any characters.")] = "*",
    sort: Annotated[Order, typer.Option("--sort", "-s", help="What comes first.")] = Order.STATE,
    every: Annotated[float, typer.Option(min=1.0, max=3600.0, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look twice, print one table and end.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="The form; JSON and YAML are for --once.")] = (
        Output.TABLE
    ),
) -> None:
    """Show what all tasks do: rate, lag, age of the last record, open transactions, errors, memory of slots.

    The table is renewed until Ctrl-C, with one request for each look. Tasks that have failed or stand still come first.
    Workers of Kafka Connect have no figures: of their tasks the states are shown.
    """
    before, before_s = _look(connect), time.monotonic()
    if once or output is not Output.TABLE or not sys.stdout.isatty():
        if any("figures" in one for one in before.values()):
            time.sleep(min(every, 1.0))
        tasks = ordered(_again(connect, before, before_s, pattern)[0], sort)
        Printer(output).listing([task.as_data() for task in tasks], HEADINGS, [cells(task) for task in tasks])
        return
    _watch(connect, before, pattern, sort, every)


def _watch(connect: "Connect", before: Mapping[str, Any], pattern: str, sort: Order, every_s: float) -> None:
    from rich.live import Live

    before_s = time.monotonic()
    with Live(_table([], 0), screen=True, auto_refresh=False) as live:
        tasks = tasks_of(before, {}, 0.0, time.time() * 1000, pattern)
        while True:
            rows = ordered(tasks, sort)
            room = max(1, live.console.size.height - 3)
            live.update(_table(rows[:room], len(rows) - room), refresh=True)
            time.sleep(every_s)
            tasks, before = _again(connect, before, before_s, pattern)
            before_s = time.monotonic()


def _look(connect: "Connect") -> Mapping[str, Any]:
    answer: Mapping[str, Any] = connect.get("connectors", expand=_EXPANSIONS)
    return answer


def _again(
    connect: "Connect", before: Mapping[str, Any], before_s: float, pattern: str
) -> tuple[list[Task], Mapping[str, Any]]:
    answer = _look(connect)
    return tasks_of(answer, before, time.monotonic() - before_s, time.time() * 1000, pattern), answer


def _table(tasks: Sequence[Task], left: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    caption = f"{left} more: choose with a pattern or --sort" if left > 0 else None
    table = Table(*HEADINGS, box=None, pad_edge=False, header_style="bold", caption=caption)
    for task in tasks:
        style = _STYLES.get(task.word, "")
        table.add_row(*(Text(printable(cell), no_wrap=True) for cell in cells(task)), style=style)
    return table


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
            if output is TextOrJson.JSON:
                print_json(event)
            else:
                typer.echo(line_of(event))
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
