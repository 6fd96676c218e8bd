"""The application: resources, pages with their files, errors and the layers around them."""

import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Depends, FastAPI
from starlette.requests import Request
from starlette.responses import Response

from fencepost import __version__
from fencepost.cluster.errors import ElsewhereError, NotFoundError
from fencepost.cluster.operations import ConnectOperations
from fencepost.rest.access.access import NO_LIMITS, UNPROTECTED, Access, Limits
from fencepost.rest.access.access_log import AccessLog
from fencepost.rest.access.guard import Guard
from fencepost.rest.access.need import authorize
from fencepost.rest.access.origin import Network, TrustedProxies
from fencepost.rest.forwarding import Forwarding
from fencepost.rest.gateway import Gateway
from fencepost.rest.model import ERRORS
from fencepost.rest.path import EncodedPath, PathText
from fencepost.rest.resources import cluster, connectors, guide, records
from fencepost.rest.response import (
    NO_SNIFF,
    HeaderRule,
    ResponseHeaders,
    allow_origins,
    install_error_handlers,
    origins_of,
)
from fencepost.rest.ui import config, connector, dead_letters, lineage, offset, overview
from fencepost.rest.ui.inside import Inside, RestRefusedError, refusal_answer
from fencepost.rest.ui.page import ErrorPages, assets
from fencepost.rest.ui.series import Watch

_assets = APIRouter(prefix="/ui/assets", include_in_schema=False)
_PAGES: tuple[APIRouter, ...] = (
    overview.router,
    connector.router,
    connector.action,
    config.router,
    offset.router,
    connector.logs,
    dead_letters.router,
    connector.topic_pages,
    lineage.router,
    _assets,
)
_FOR_A_YEAR = "public, max-age=31536000, immutable"

_MAIN = (
    cluster.root,
    connectors.router,
    connectors.lifecycle,
    connectors.tasks,
    connectors.offsets_router,
    records.dead_letters,
    records.observation,
    records.topics,
    cluster.plugins,
    cluster.retention,
    cluster.router,
    guide.document,
    guide.guide,
)
_ABOUT = "Kafka Connect's REST API. Every error is an object of error_code and message."


@dataclass(frozen=True, slots=True)
class Parts:
    """Which resources an application has: all but `/admin` and `/ui`; `/admin`; `/ui`, which needs the first."""

    has_main: bool = True
    has_admin: bool = True
    has_ui: bool = True


@dataclass(frozen=True, slots=True)
class RestOptions:
    """How the API shows itself: CORS lists (comma-separated, empty is off), header rules, and who may do what.

    `peer_tls` is for requests to other workers.
    """

    allow_origin: str = ""
    allow_methods: str = ""
    header_rules: Sequence[HeaderRule] = ()
    parts: Parts = Parts()
    access: Access = UNPROTECTED
    peer_tls: ssl.SSLContext | None = None
    limits: Limits = NO_LIMITS
    trusted_proxies: Sequence[Network] = ()


def create_app(
    operations: ConnectOperations,
    *,
    options: RestOptions = RestOptions(),
    version: str = "",
    now_s: Callable[[], float] = time.time,
) -> FastAPI:
    """Return an application that answers for `operations`; `now_s` is the clock of date headers."""
    app = FastAPI(
        title="Fencepost",
        version=version or __version__,
        description=_ABOUT,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=[Depends(authorize)],
        responses=ERRORS,
        # Bodies hold secrets; nothing of them goes to a collector that the environment happens to name.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    gateway = app.state.gateway = Gateway(operations)
    app.state.limits = options.limits
    admin = [cluster.admin] if options.parts.has_admin else []
    resources = [*(_MAIN if options.parts.has_main else ()), *admin]
    has_ui = options.parts.has_main and options.parts.has_ui
    routers = [*resources, *(_PAGES if has_ui else ())]
    app.state.routes = tuple(route for router in routers for route in router.routes)
    for router in routers:
        app.include_router(router)
    if has_ui:
        app.state.watch = Watch()
        app.add_exception_handler(RestRefusedError, refusal_answer)
    _wrap(app, options, gateway, now_s)
    app.add_exception_handler(ElsewhereError, Forwarding(gateway, options.peer_tls).answer)
    return app


def _wrap(app: FastAPI, options: RestOptions, gateway: Gateway, now_s: Callable[[], float]) -> None:
    # The first one added is the innermost.
    origins = origins_of(options.allow_origin)
    app.add_middleware(Inside, state=app.state)
    app.add_middleware(Guard, access=options.access, gateway=gateway, limits=options.limits, allowed_origins=origins)
    install_error_handlers(app)
    app.add_middleware(ErrorPages)
    app.add_middleware(EncodedPath)
    if origins is not None:
        app.add_middleware(allow_origins, origins, options.allow_methods)
    app.add_middleware(ResponseHeaders, rules=(NO_SNIFF, *options.header_rules), now_s=now_s)
    app.add_middleware(AccessLog)
    if options.trusted_proxies:
        app.add_middleware(TrustedProxies, networks=options.trusted_proxies)


@_assets.get("/{file}")
async def get_asset(file: PathText, request: Request) -> Response:
    """Answer with a file; browsers keep it, as its address changes with its content."""
    found = assets().get(file)
    if found is None:
        raise NotFoundError(f"The UI has no file {file}")
    is_versioned = request.query_params.get("v") == found.version
    headers = {"cache-control": _FOR_A_YEAR if is_versioned else "no-cache"}
    return Response(found.content, media_type=found.media_type, headers=headers)
