"""`/ui/workers`: who runs what, and how much memory it takes; and `/ui/retention`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.glance import figures_of
from fencepost.rest.ui.visit import Visit, Visiting, digest

router = APIRouter(prefix="/ui", include_in_schema=False)


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
    return visit.page("workers.html", title="Workers", place="workers", **await _content(visit))


@router.get("/workers/rows")
async def show_rows(visit: Visiting) -> Response:
    """Answer with the workers alone; with nothing if the browser has seen them."""
    return visit.renewed("workers_rows.html", await _content(visit))


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


async def _content(visit: Visit) -> dict[str, Any]:
    found = workers(await visit.get("/connectors", expand=["status", "figures"]))
    return {"workers": found, "seen": digest(found), "total": _total(found)}


def _total(found: Iterable[WorkerRow]) -> dict[str, int]:
    slots = [slot for row in found for slot in row.slots.values()]
    memory = sum((slot.resident_bytes or 0) + (slot.host_resident_bytes or 0) for slot in slots)
    return {"slots": len(slots), "bytes": memory}
