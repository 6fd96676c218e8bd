"""`/ui/connectors/C/dead-letters`: where they are, how many there were, and how they are sent again."""

import shlex

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.config.connector import DeadLetterConfig, SinkChoice
from fencepost.rest.path import ConnectorName
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.overview import figures_of
from fencepost.rest.ui.visit import Visiting

router = APIRouter(prefix="/ui/connectors/{name}", include_in_schema=False)

_TOPIC = DeadLetterConfig.key_of("dead_letters_topic")
_RESEND = SinkChoice.key_of("resend_topic")


@router.get("/dead-letters")
async def show_dead_letters(name: ConnectorName, visit: Visiting) -> Response:
    """Show how many there were since the tasks started, and the commands that show and resend them."""
    info = await visit.get(path_of("connectors", name))
    figures = figures_of({"figures": await visit.maybe_get(path_of("connectors", name, "figures"))})
    base = str(visit.request.base_url).rstrip("/")
    command = f"fencepost dead-letters {shlex.quote(name)} --url {shlex.quote(base)}"
    config = info["config"]
    return visit.page(
        "dead_letters.html",
        title=f"Dead letters of {name}",
        name=name,
        tab="dead-letters",
        topic=(config.get(_TOPIC) or "").strip(),
        topic_key=_TOPIC,
        resend_topic=(config.get(_RESEND) or "").strip(),
        resend_key=_RESEND,
        is_sink=info["type"] == "sink",
        known=sum(task.get("dead_letters_total") or 0 for task in figures) if figures else None,
        command=command,
    )
