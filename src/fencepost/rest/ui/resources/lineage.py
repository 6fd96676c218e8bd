"""`/ui/lineage`: what connectors read and write, as a picture and as a table."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.rest.ui.picture import Flow, around, picture
from fencepost.rest.ui.visit import Visiting

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/lineage")
async def show_lineage(visit: Visiting) -> Response:
    """Show all connectors; with `of`, one and those that share topics with it."""
    flows = flows_of(await visit.maybe_get("/lineage") or {})
    of = visit.request.query_params.get("of", "")
    shown = around(flows, of) if of else flows
    return visit.page("lineage.html", title="Lineage", place="lineage", flows=shown, picture=picture(shown), of=of)


def flows_of(found: Mapping[str, Mapping[str, Any]]) -> list[Flow]:
    """Return what REST says of each connector."""
    return [
        Flow(name, one["kind"], [_node(each) for each in one["reads"]], [_node(each) for each in one["writes"]])
        for name, one in sorted(found.items())
    ]


def _node(thing: Mapping[str, Any]) -> tuple[str, str]:
    return ("topic", str(thing["topic"])) if thing.get("topic") else ("external", str(thing.get("external") or "?"))
