"""A request for a page: who asks, what REST answers to them, and the page."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fencepost.cluster.errors import ForbiddenError
from fencepost.rest.access.need import Asking, Caller
from fencepost.rest.access.origin import is_of_own_site
from fencepost.rest.access.principal import Role
from fencepost.rest.body import read_body
from fencepost.rest.response import to_json
from fencepost.rest.ui.inside import Answer, RestRefusedError, ask, ask_for
from fencepost.rest.ui.page import html_response, render
from fencepost.rest.ui.series import Series, Watch


def digest(content: object) -> str:
    """Return a short text that is the same for the same content."""
    return hashlib.blake2b(to_json(content), digest_size=6).hexdigest()


FIELD = "token"
_COOKIE = "fencepost-form"
_TOKEN = re.compile(r"[\w-]{43}", re.ASCII)


def token_of(request: Request) -> str:
    """Return the token of the browser that sends a request: the one that it has, else a new one."""
    kept = request.cookies.get(_COOKIE, "")
    return kept if _TOKEN.fullmatch(kept) else secrets.token_urlsafe(32)


def keep_token(response: Response, token: str, *, is_secure: bool) -> None:
    """Have the browser keep its token, for the pages of the UI alone."""
    response.set_cookie(_COOKIE, token, path="/ui", secure=is_secure, httponly=True, samesite="strict")


def ensure_own_form(request: Request, fields: Mapping[str, str]) -> None:
    """Raise ForbiddenError unless a form comes from a page of this worker, and from the browser that got the page.

    A cookie and a field of each form hold the same random text. Pages of other sites can have a browser send the
    cookie, but can neither read it nor set it. So any worker can check a form of any other, and nothing is stored.
    Browsers also say which site a request comes from; a form of another one is refused whatever CORS allows.
    """
    kept, sent = request.cookies.get(_COOKIE, ""), fields.get(FIELD, "")
    if not is_of_own_site(request.headers):
        raise ForbiddenError("A page of another site has sent this form")
    if not _TOKEN.fullmatch(kept) or not hmac.compare_digest(kept.encode(), sent.encode()):
        raise ForbiddenError("The form has no valid token: load its page again, with cookies allowed, and send it then")


_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 5_000


class Visit:
    """Created for each request below `/ui`."""

    def __init__(self, request: Request, caller: Caller, watch: Watch) -> None:
        self.request = request
        self.caller = caller
        self._watch = watch
        self._token = token_of(request)

    @property
    def series(self) -> Series:
        return self._watch.series

    def may(self, role: str, name: str) -> bool:
        """Return whether the caller has a role for a connector: view, operate, edit or admin."""
        return self.caller.may(Role[role.upper()], name)

    @property
    def may_create(self) -> bool:
        """Return whether the caller may edit some connectors, whatever their names."""
        return self.caller.may_somewhere(Role.EDIT)

    async def get(self, path: str, **query: object) -> Any:
        """Return what REST answers. Raises RestRefusedError."""
        return await ask_for(self.request, "GET", path, query=query)

    async def maybe_get(self, path: str, **query: object) -> Any:
        """Return what REST answers; None if it is an error, as where the caller may not see it."""
        answer = await ask(self.request, "GET", path, query=query)
        return answer.content if answer.is_success else None

    async def send(self, method: str, path: str, body: object = None, **query: object) -> Answer:
        """Return the answer to a change, which may be a refusal."""
        return await ask(self.request, method, path, query=query, body=body)

    async def change(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of the answer to another request than GET. Raises RestRefusedError."""
        return await ask_for(self.request, method, path, body=body)

    async def form(self) -> dict[str, str]:
        """Return the fields of a form of this caller, without its token.

        Raises ForbiddenError if it was not sent from a page of this UI; HTTPException as `read_body` does.
        """
        body = await read_body(self.request, _FORM)
        try:
            fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
        except ValueError:
            raise HTTPException(400) from None
        ensure_own_form(self.request, fields)
        fields.pop(FIELD, None)
        return fields

    def page(
        self, template: str, *, title: str, place: str = "connectors", status: int = 200, **content: Any
    ) -> Response:
        """Return a whole page; `place` is the part of the UI that it belongs to."""
        common = {"title": title, "place": place, "user": self.caller.name, "token": self._token, "visit": self}
        response = html_response(render(template, **common, **content), status)
        keep_token(response, self._token, is_secure=self.request.url.scheme == "https")
        return response

    def piece(self, template: str, **content: Any) -> Response:
        """Return a part of a page, which replaces the one that the browser has."""
        return html_response(render(template, token=self._token, visit=self, **content))

    def renewed(self, template: str, content: Mapping[str, Any]) -> Response:
        """Return a part of a page; an answer that leaves the page as it is if the browser has `seen` this content."""
        if content["seen"] and content["seen"] == self.request.query_params.get("seen"):
            return Response(status_code=204, headers={"cache-control": "no-store"})
        return self.piece(template, **content)

    @staticmethod
    def done(answer: Answer, path: str) -> Response:
        """Send the browser to another page after a change. Raises RestRefusedError if it was refused."""
        if not answer.is_success:
            raise RestRefusedError(answer.status, answer.message)
        return RedirectResponse(path, 303, headers={"cache-control": "no-store"})


async def _visit(request: Request, caller: Asking) -> Visit:
    watch: Watch = request.app.state.watch
    await watch.look(request)
    return Visit(request, caller, watch)


Visiting = Annotated[Visit, Depends(_visit)]
