"""Proof that a form was sent from a page of this worker, and by the browser that got it.

A cookie and a field of each form hold the same random text. Pages of other sites can have a browser send the cookie,
but can neither read it nor set it. So any worker can check a form of any other, and nothing is stored. Browsers also
say which site a request comes from; a form of another one is refused whatever CORS allows.
"""

import hmac
import re
import secrets
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from fencepost.cluster.errors import ForbiddenError
from fencepost.rest.access.site import is_of_own_site

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
    """Raise ForbiddenError unless a form comes from a page of this worker."""
    kept, sent = request.cookies.get(_COOKIE, ""), fields.get(FIELD, "")
    if not is_of_own_site(request.headers):
        raise ForbiddenError("A page of another site has sent this form")
    if not _TOKEN.fullmatch(kept) or not hmac.compare_digest(kept.encode(), sent.encode()):
        raise ForbiddenError("The form has no valid token: load its page again, with cookies allowed, and send it then")
