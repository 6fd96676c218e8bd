"""The application: resources, errors and the layers around them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import FastAPI

from fencepost.cluster.errors import ElsewhereError
from fencepost.cluster.operations import ConnectOperations
from fencepost.rest import document
from fencepost.rest.access_log import AccessLog
from fencepost.rest.describe import ERRORS
from fencepost.rest.errors import install_error_handlers
from fencepost.rest.forwarding import Forwarding
from fencepost.rest.gateway import Gateway
from fencepost.rest.header import NO_SNIFF, HeaderRule, ResponseHeaders, allow_origins
from fencepost.rest.path import EncodedPath
from fencepost.rest.resources import connectors, internal, lifecycle, loggers, offsets, plugins, retention, root, tasks

_ABOUT = "Kafka Connect's REST API. Every error is an object of error_code and message."


@dataclass(frozen=True, slots=True)
class RestOptions:
    """How the API shows itself: CORS lists (comma-separated, empty is off) and header rules."""

    allow_origin: str = ""
    allow_methods: str = ""
    header_rules: Sequence[HeaderRule] = ()
    has_admin: bool = True


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
        version=version or operations.local.server_info().version,
        description=_ABOUT,
        openapi_url=None,
        redirect_slashes=False,
        responses=ERRORS,
        # Bodies hold secrets; nothing of them goes to a collector that the environment happens to name.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    gateway = app.state.gateway = Gateway(operations)
    resources = [root, connectors, lifecycle, tasks, offsets, plugins, retention, internal, document]
    routers = [one.router for one in ([*resources, loggers] if options.has_admin else resources)]
    app.state.routes = tuple(route for router in routers for route in router.routes)
    for router in routers:
        app.include_router(router)
    _wrap(app, options, now_s)
    app.add_exception_handler(ElsewhereError, Forwarding(gateway).answer)
    return app


def _wrap(app: FastAPI, options: RestOptions, now_s: Callable[[], float]) -> None:
    # The first one added is the innermost.
    install_error_handlers(app)
    app.add_middleware(EncodedPath)
    if options.allow_origin:
        app.add_middleware(allow_origins, options.allow_origin, options.allow_methods)
    app.add_middleware(ResponseHeaders, rules=(NO_SNIFF, *options.header_rules), now_s=now_s)
    app.add_middleware(AccessLog)
