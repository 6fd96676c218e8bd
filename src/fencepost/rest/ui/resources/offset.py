"""`/ui/connectors/C/offsets`: where a connector stands, and moving it, after a preview."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.errors import BadRequestError
from fencepost.rest.path import ConnectorName
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.offset import FORGET, Offsets, body
from fencepost.rest.ui.visit import Visit, Visiting

router = APIRouter(prefix="/ui/connectors/{name}/offsets", include_in_schema=False)


@router.get("")
async def show_offsets(name: ConnectorName, visit: Visiting) -> Response:
    """Show the offsets; with fields to change them if the connector is stopped."""
    offsets = await _offsets(visit, name)
    return await _page(visit, name, offsets)


@router.post("/preview")
async def preview(name: ConnectorName, visit: Visiting) -> Response:
    """Show what would change, before and after; nothing is stored."""
    fields = await visit.form()
    offsets = await _offsets(visit, name)
    moves = offsets.moves(fields)
    if not moves or any(move.fault for move in moves):
        return await _page(visit, name, offsets, moves=moves, is_unchanged=not moves)
    content: dict[str, Any] = {"moves": moves, "seen": offsets.seen, "is_all": fields.get("all") == FORGET}
    return visit.page("offset_preview.html", title=f"Move {name}", name=name, tab="offsets", **content)


@router.post("")
async def move(name: ConnectorName, visit: Visiting) -> Response:
    """Store what was shown, if the offsets are still those of the preview."""
    fields = await visit.form()
    offsets = await _offsets(visit, name)
    if fields.get("seen") != offsets.seen:
        raise BadRequestError("The offsets have changed since the preview, so nothing was stored; preview it again")
    path, moves = path_of("connectors", name, "offsets"), offsets.moves(fields)
    is_all = fields.get("all") == FORGET
    answer = await visit.send("DELETE", path) if is_all else await visit.send("PATCH", path, body(moves))
    return visit.done(answer, path_of("ui", "connectors", name, "offsets"))


async def _offsets(visit: Visit, name: str) -> Offsets:
    return Offsets.of((await visit.get(path_of("connectors", name, "offsets")))["offsets"])


async def _page(visit: Visit, name: str, offsets: Offsets, **content: Any) -> Response:
    status = await visit.maybe_get(path_of("connectors", name, "status"))
    state = status["connector"]["state"] if status else ""
    given: dict[str, Any] = {"moves": (), "is_unchanged": False} | content
    return visit.page(
        "offsets.html", title=f"Offsets of {name}", name=name, tab="offsets", offsets=offsets, state=state, **given
    )
