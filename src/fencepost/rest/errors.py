"""Converts failures to HTTP answers, which all have the same kind of body."""

import logging
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.cluster.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    NotReadyError,
    OperationError,
)
from fencepost.rest.body import without_secrets
from fencepost.rest.response import json_response
from fencepost.secret.known import hide

log = logging.getLogger(__name__)

_STATUS_OF: dict[type[OperationError], int] = {
    BadRequestError: 400,
    ForbiddenError: 403,
    NotFoundError: 404,
    AlreadyExistsError: 409,
    ConflictError: 409,
    NotReadyError: 503,
    OperationError: 500,
}


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(OperationError, _operation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _unfit_path)
    app.add_middleware(UnexpectedErrors)


def error_answer(
    status: int, message: str | None, headers: dict[str, str] | None = None, *, request: Request | None = None
) -> Response:
    """Return an answer without the secrets that this process knows (E11), except what the request said itself."""
    if message is not None:
        message = hide(message) if request is None else without_secrets(message, request)
    return json_response({"error_code": status, "message": message}, status, headers)


def status_of(error: OperationError) -> int:
    """Return the HTTP status of an error. A class that is not in the table has the status of its nearest ancestor."""
    return next(_STATUS_OF[cls] for cls in type(error).__mro__ if cls in _STATUS_OF)


async def _operation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, OperationError)
    return error_answer(status_of(error), error.message, request=request)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"allow": ", ".join(_methods(request))}
    return error_answer(error.status_code, _framework_text(error.status_code), headers)


def _methods(request: Request) -> list[str]:
    """Return the methods of a path. The framework knows those of one route, but here each method has its own route."""
    routes = [one for one in request.app.state.routes if one.matches(request.scope)[0] is not Match.NONE]
    methods = {method for route in routes for method in route.methods}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def _unfit_path(_: Request, __: Exception) -> Response:
    # Only path parameters are declared with a type that a request can miss (a task id that is no number).
    return error_answer(404, _framework_text(404))


def _framework_text(status: int) -> str:
    return f"HTTP {status} {HTTPStatus(status).phrase}"


class UnexpectedErrors:
    """Answers 500 to unexpected exceptions, and logs them.

    Only the log gets an exception's text, which was not written for users and may contain a secret (E11).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def watch(message: Message) -> None:
            nonlocal is_started
            is_started = is_started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except ClientDisconnect:
            log.debug("client left before its request was complete")
        except Exception as error:
            if is_started or scope["type"] != "http":
                raise
            log.exception("request %s %s failed", scope["method"], scope["path"])
            text = f"Unexpected {type(error).__name__}; the log of this worker has the details."
            await error_answer(500, text)(scope, receive, send)
