"""The pages as a part of the REST application, and the files that they name."""

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response

from fencepost.cluster.errors import NotFoundError
from fencepost.rest.path import PathText
from fencepost.rest.ui import config, connector, dead_letters, lineage, offset, overview, workers
from fencepost.rest.ui.inside import RestRefusedError, refusal_answer
from fencepost.rest.ui.page import assets
from fencepost.rest.ui.series import Watch

files = APIRouter(prefix="/ui/assets", include_in_schema=False)

PAGES: tuple[APIRouter, ...] = (
    overview.router,
    connector.router,
    connector.action,
    config.router,
    offset.router,
    connector.logs,
    dead_letters.router,
    connector.topic_pages,
    lineage.router,
    workers.router,
    files,
)
_FOR_A_YEAR = "public, max-age=31536000, immutable"


def add_pages(app: FastAPI) -> None:
    """Give an application what handlers of pages need; its routes are `PAGES`."""
    app.state.watch = Watch()
    app.add_exception_handler(RestRefusedError, refusal_answer)


@files.get("/{file}")
async def get_asset(file: PathText, request: Request) -> Response:
    """Answer with a file; browsers keep it, as its address changes with its content."""
    found = assets().get(file)
    if found is None:
        raise NotFoundError(f"The UI has no file {file}")
    is_versioned = request.query_params.get("v") == found.version
    headers = {"cache-control": _FOR_A_YEAR if is_versioned else "no-cache"}
    return Response(found.content, media_type=found.media_type, headers=headers)
