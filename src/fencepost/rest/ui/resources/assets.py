"""`/ui/assets`: styles, scripts and the icon."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from fencepost.cluster.errors import NotFoundError
from fencepost.rest.path import PathText
from fencepost.rest.ui.asset import assets

router = APIRouter(prefix="/ui/assets", include_in_schema=False)

_FOR_A_YEAR = "public, max-age=31536000, immutable"


@router.get("/{file}")
async def get_asset(file: PathText, request: Request) -> Response:
    """Answer with a file; browsers keep it, as its address changes with its content."""
    found = assets().get(file)
    if found is None:
        raise NotFoundError(f"The UI has no file {file}")
    is_versioned = request.query_params.get("v") == found.version
    headers = {"cache-control": _FOR_A_YEAR if is_versioned else "no-cache"}
    return Response(found.content, media_type=found.media_type, headers=headers)
