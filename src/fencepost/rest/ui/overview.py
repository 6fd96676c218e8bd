"""`/ui`: the connectors, a row for each, sorted and filtered.

`/ui/workers`: who runs what, and how much memory it takes; and `/ui/retention`.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from fencepost.cluster.glance import WORST_FIRST, connector_word, delivery_word, figures_of, kind_word
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.page import age
from fencepost.rest.ui.series import SPARK_POINTS, Series, spark
from fencepost.rest.ui.visit import Visit, Visiting, digest
from fencepost.telemetry.traces import reason_in

SORTS = ("name", "state", "rate", "lag", "age")
PAGE_ROWS = 200


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a list shows: names that contain `text`, in `state` (empty: any), sorted by `sort`; and which page of it."""

    text: str = ""
    state: str = ""
    sort: str = "name"
    is_descending: bool = False
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Wanted":
        """Parse a query; what it does not know is as if it were not there."""
        sort = query.get("sort", "")
        name = sort.removeprefix("-")
        known = name if name in SORTS else "name"
        page = query.get("page", "")
        number = int(page) if page.isdecimal() and len(page) < 8 else 1
        return cls(query.get("q", "").strip(), query.get("state", ""), known, sort.startswith("-"), max(1, number))

    def query(self, sort: str | None = None, page: int = 1) -> dict[str, str]:
        """Return it as a query for a page; with `sort`, the other direction if it is sorted by that already."""
        by, is_descending = sort or self.sort, self.is_descending
        if sort is not None:
            is_descending = not self.is_descending if sort == self.sort else sort in ("rate", "lag")
        fields = {"q": self.text, "state": self.state, "sort": f"-{by}" if is_descending else by, "page": str(page)}
        usual = {("sort", "name"), ("page", "1")}
        return {key: value for key, value in fields.items() if value and (key, value) not in usual}


@dataclass(frozen=True, slots=True)
class Recent:
    """What a connector has done lately; what is not known is None. `age` is that of the last record, as it is shown."""

    rate: float | None = None
    lag: float | None = None
    last_record_ms: float | None = None
    age: str = ""
    spark: Sequence[str] = ()

    @classmethod
    def of(cls, figures: Sequence[Mapping[str, Any]]) -> "Recent":
        lags = [task["lag_max"] for task in figures if task.get("lag_max") is not None]
        last_ms = max((task["last_record_ms"] for task in figures if task.get("last_record_ms")), default=None)
        return cls(None, max(lags, default=None), last_ms, age(last_ms))


@dataclass(frozen=True, slots=True)
class Row:
    """A connector at a glance; `about` is its kind, and how often what it moves arrives."""

    name: str
    about: str
    class_name: str
    state: str
    tasks: int
    tasks_running: int
    remark: str
    recent: Recent

    @property
    def href(self) -> str:
        return path_of("ui", "connectors", self.name)


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of a page, out of `total` on all `pages`."""

    rows: Sequence[Row]
    page: int
    pages: int
    total: int

    @classmethod
    def of(cls, found: Sequence[Row], page: int) -> "Listing":
        """Return a page of rows; the last one if there are fewer."""
        pages = max(1, -(-len(found) // PAGE_ROWS))
        page = min(page, pages)
        return cls(found[(page - 1) * PAGE_ROWS : page * PAGE_ROWS], page, pages, len(found))


def rows(connectors: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return a row for each connector of `GET /connectors?expand=…`, without what only a `Series` knows."""
    return [_row(name, one) for name, one in connectors.items()]


def with_rate(row: Row, series: Series) -> Row:
    return replace(row, recent=replace(row.recent, rate=series.rate(row.name)))


def with_spark(row: Row, series: Series) -> Row:
    line = spark(series.points(row.name, SPARK_POINTS))
    return replace(row, recent=replace(row.recent, rate=series.rate(row.name), spark=line))


def selected(found: Iterable[Row], wanted: Wanted) -> list[Row]:
    """Return the rows that are wanted, in their order; what is not known comes last."""
    text = wanted.text.casefold()
    kept = [
        row
        for row in found
        if (text in row.name.casefold() or text in row.class_name.casefold()) and wanted.state in ("", row.state)
    ]
    kept.sort(key=lambda row: row.name)
    if wanted.sort != "name":
        kept.sort(key=lambda row: _key(row, wanted.sort), reverse=wanted.is_descending)
        kept.sort(key=lambda row: _of(row, wanted.sort) is None)
    elif wanted.is_descending:
        kept.reverse()
    return kept


def counts(found: Iterable[Row]) -> dict[str, int]:
    """Return how many connectors are in each state, the worst first."""
    states = [row.state for row in found]
    order = [*WORST_FIRST, *sorted(set(states) - set(WORST_FIRST))]
    return {state: states.count(state) for state in order if state in states}


def _row(name: str, one: Mapping[str, Any]) -> Row:
    status, config, figures = one["status"], one["info"]["config"], figures_of(one)
    traces = [status["connector"].get("trace"), *(task.get("trace") for task in status["tasks"])]
    return Row(
        name,
        _about(one),
        (config.get("connector.class") or "").rpartition(".")[2],
        connector_word(one),
        len(status["tasks"]),
        sum(task["state"] == "RUNNING" for task in status["tasks"]),
        reason_in(next((trace for trace in traces if trace), "")),
        Recent.of(figures),
    )


def _about(one: Mapping[str, Any]) -> str:
    return " · ".join(word for word in (kind_word(one), delivery_word(one)) if word != "-")


def _of(row: Row, sort: str) -> Any:
    return {"state": row.state, "rate": row.recent.rate, "lag": row.recent.lag, "age": row.recent.last_record_ms}[sort]


def _key(row: Row, sort: str) -> float:
    if sort == "state":
        return WORST_FIRST.index(row.state) if row.state in WORST_FIRST else len(WORST_FIRST)
    value = _of(row, sort)
    if value is None:
        return 0.0
    return -float(value) if sort == "age" else float(value)  # an age grows as its moment is longer ago


_AT_ONCE = 500

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("")
async def show_connectors(visit: Visiting) -> Response:
    """Answer with the whole page."""
    content = await _content(visit)
    return visit.page("connectors.html", title="Connectors", **content, states=list(content["counts"]))


@router.get("/rows")
async def show_rows(visit: Visiting) -> Response:
    """Answer with the list alone; with nothing if the browser has seen this one."""
    return visit.renewed("rows.html", await _content(visit))


async def _content(visit: Visit) -> dict[str, Any]:
    wanted = Wanted.of(visit.request.query_params)
    answer = await visit.get("/connectors", expand=["status", "info", "figures"])
    found = await run_in_threadpool(rows, answer)  # of thousands, in which the loop has others to answer
    if wanted.sort == "rate":
        found = await _rated(found, visit.series)
    listing = Listing.of(await run_in_threadpool(selected, found, wanted), wanted.page)
    shown = [with_spark(row, visit.series) for row in listing.rows]
    tally = counts(found)
    content = {"wanted": wanted, "counts": tally, "rows": shown, "listing": listing}
    return {**content, "seen": digest([shown, listing.page, listing.total, tally])}


async def _rated(found: list[Row], series: Series) -> list[Row]:
    """Return the rows with their rates. Series are for the loop alone, which has others to answer in between."""
    rated: list[Row] = []
    for start in range(0, len(found), _AT_ONCE):
        rated += [with_rate(row, series) for row in found[start : start + _AT_ONCE]]
        await asyncio.sleep(0)
    return rated


@dataclass(slots=True)
class SlotRow:
    """A slot, and the tasks that it runs as far as the caller may view them."""

    id: str
    pid: int | None
    resident_bytes: int | None
    host_resident_bytes: int | None
    tasks: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class WorkerRow:
    """A worker with what it runs; `silent`: tasks of which it has not said what they do."""

    id: str
    connectors: list[str] = field(default_factory=list)
    tasks: int = 0
    failed: int = 0
    silent: int = 0
    slots: dict[str, SlotRow] = field(default_factory=dict)


@router.get("/workers")
async def show_workers(visit: Visiting) -> Response:
    """Answer with the whole page."""
    return visit.page("workers.html", title="Workers", place="workers", **await _of_workers(visit))


@router.get("/workers/rows")
async def show_worker_rows(visit: Visiting) -> Response:
    """Answer with the workers alone; with nothing if the browser has seen them."""
    return visit.renewed("workers_rows.html", await _of_workers(visit))


@router.get("/retention")
async def show_retention(visit: Visiting) -> Response:
    """Answer with what the leader has decided last."""
    found = await visit.get("/retention")
    return visit.page("retention.html", title="Retention", place="retention", found=found)


def workers(connectors: Mapping[str, Mapping[str, Any]]) -> list[WorkerRow]:
    """Return the workers that run these connectors of `GET /connectors?expand=status&expand=figures`."""
    found: dict[str, WorkerRow] = {}
    for name, one in connectors.items():
        if runs_on := one["status"]["connector"]["worker_id"]:
            found.setdefault(runs_on, WorkerRow(runs_on)).connectors.append(name)
        figures = {task["id"]: task for task in figures_of(one)}
        for task in one["status"]["tasks"]:
            row = found.setdefault(task["worker_id"], WorkerRow(task["worker_id"]))
            row.tasks += 1
            row.failed += task["state"] == "FAILED"
            row.silent += task["id"] not in figures and task["state"] == "RUNNING"
            _add(row, name, task["id"], figures.get(task["id"], {}).get("slot"))
    return sorted(found.values(), key=lambda row: row.id)


def _add(row: WorkerRow, name: str, task: int, slot: Mapping[str, Any] | None) -> None:
    if slot:
        sizes = (slot.get("resident_bytes"), slot.get("host_resident_bytes"))
        row.slots.setdefault(slot["id"], SlotRow(slot["id"], slot.get("pid"), *sizes)).tasks.append((name, task))


async def _of_workers(visit: Visit) -> dict[str, Any]:
    found = workers(await visit.get("/connectors", expand=["status", "figures"]))
    return {"workers": found, "seen": digest(found), "total": _total(found)}


def _total(found: Iterable[WorkerRow]) -> dict[str, int]:
    slots = [slot for row in found for slot in row.slots.values()]
    memory = sum((slot.resident_bytes or 0) + (slot.host_resident_bytes or 0) for slot in slots)
    return {"slots": len(slots), "bytes": memory}
