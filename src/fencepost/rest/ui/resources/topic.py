"""`/ui/connectors/C/topics/T`: the first and the last records of a topic that the connector reads or writes."""

import asyncio
import shlex

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.topic_records import EARLIEST, LATEST
from fencepost.rest.path import ConnectorName, PathText
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visiting

router = APIRouter(prefix="/ui/connectors/{name}/topics", include_in_schema=False)

_MOST = 10


@router.get("/{topic}")
async def show_topic(name: ConnectorName, topic: PathText, visit: Visiting) -> Response:
    """Show records as the connector's converters read them."""
    path = path_of("connectors", name, "topics", topic, "records")
    first, last = await asyncio.gather(
        *(visit.send("GET", path, **{"from": start, "limit": _MOST}) for start in (EARLIEST, LATEST))
    )
    base = str(visit.request.base_url).rstrip("/")
    command = ["fencepost", "topic", "read", topic, "--connector", name, "--follow", "--url", base]
    content = {
        "name": name,
        "topic": topic,
        "fault": next((answer.message for answer in (first, last) if not answer.is_success), None),
        "first": first.content["records"] if first.is_success else [],
        "last": last.content["records"] if last.is_success else [],
        "command": shlex.join(command),
    }
    return visit.page("topic.html", title=f"{topic} of {name}", tab="", **content)
