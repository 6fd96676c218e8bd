"""The rows of `fencepost top`: pure functions of two answers and the time between them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fencepost.cluster.glance import WORST_FIRST, task_word
from fencepost.config.name_pattern import matches


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
