"""`/ui`: all connectors at a glance."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.rest.ui.digest import digest
from fencepost.rest.ui.overview import Wanted, counts, rows, selected
from fencepost.rest.ui.visit import Visit, Visiting

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
    found = rows(await visit.get("/connectors", expand=["status", "info", "figures"]), visit.series)
    shown = selected(found, wanted)
    return {"wanted": wanted, "counts": counts(found), "rows": shown, "seen": digest(shown)}
