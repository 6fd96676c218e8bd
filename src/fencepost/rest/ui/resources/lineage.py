"""`/ui/lineage`: what connectors read and write, as a picture and as a table."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.glance import connector_word
from fencepost.rest.ui.picture import Flow, Node, around, picture
from fencepost.rest.ui.visit import Visiting

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/lineage")
async def show_lineage(visit: Visiting) -> Response:
    """Show all connectors; with `of`, one and those that share topics with it."""
    states = await visit.maybe_get("/connectors", expand=["status", "figures"]) or {}
    found = flows_of(await visit.maybe_get("/lineage") or (), states)
    flows = [replace(flow, is_open=visit.may("operate", flow.name)) for flow in found]
    of = visit.request.query_params.get("of", "")
    shown = around(flows, of) if of else flows
    return visit.page("lineage.html", title="Lineage", place="lineage", flows=shown, picture=picture(shown), of=of)


def flows_of(
    found: Iterable[Mapping[str, Any]], connectors: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> list[Flow]:
    """Return what REST says of each connector, with its state in `connectors`."""
    states = {name: connector_word(one) for name, one in connectors.items()}
    flows = [
        Flow(one["name"], one["kind"], _ends(one["reads"]), _ends(one["writes"]), states.get(one["name"], ""))
        for one in found
    ]
    return sorted(flows, key=lambda flow: flow.name)


def _ends(found: Iterable[Mapping[str, Any]]) -> list[Node]:
    """Return topics, patterns of topics and what is outside; a topic of another cluster with the cluster's alias."""
    return [(end["type"], f"{end['cluster']}: {end['name']}" if end.get("cluster") else end["name"]) for end in found]
