"""`/ui`: all connectors at a glance."""

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from fencepost.rest.ui.digest import digest
from fencepost.rest.ui.overview import Listing, Row, Wanted, counts, rows, selected, with_rate, with_spark
from fencepost.rest.ui.series import Series
from fencepost.rest.ui.visit import Visit, Visiting

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
