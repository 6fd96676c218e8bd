"""Headers of all answers, and CORS."""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import formatdate

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ACTIONS = ("set", "add", "setDate", "addDate")
_RULE = re.compile(r"\s*(\w+)\s+([!#$%&'*+.^`|~\w-]+)\s*:\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """`action` is set, add, setDate or addDate; the value of a date is milliseconds from now."""

    action: str
    name: str
    value: str


NO_SNIFF = HeaderRule("set", "X-Content-Type-Options", "nosniff")


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """Parse rules such as `set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store"`.

    A rule that contains a comma is in double quotes. Raises ValueError, which names the wrong rule and the reason.
    """
    if not text.strip():
        return ()
    (rules,) = csv.reader([text.replace("\n", " ")], skipinitialspace=True)
    return tuple(_parse_rule(rule) for rule in rules)


def _parse_rule(text: str) -> HeaderRule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"header rule '{text}' is not of the form '[action] [name]: [value]'")
    rule = HeaderRule(*match.groups())
    if rule.action not in _ACTIONS:
        raise ValueError(f"header rule '{text}' has action '{rule.action}'; give one of {', '.join(_ACTIONS)}")
    if rule.action.endswith("Date") and not re.fullmatch(r"-?\d{1,15}", rule.value):
        raise ValueError(f"header rule '{text}' needs milliseconds from now, not '{rule.value}'")
    if not rule.value.isascii() or not rule.value.isprintable():
        raise ValueError(f"header rule '{text}' contains characters that a header cannot contain")
    return rule


class ResponseHeaders:
    """Applies header rules to every answer."""

    def __init__(self, app: ASGIApp, rules: Sequence[HeaderRule], now_s: Callable[[], float]) -> None:
        self._app = app
        self._rules = rules
        self._now_s = now_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._apply(MutableHeaders(scope=message))
            await send(message)

        await self._app(scope, receive, add_headers)

    def _apply(self, headers: MutableHeaders) -> None:
        for rule in self._rules:
            value = rule.value
            if rule.action.endswith("Date"):
                value = formatdate(self._now_s() + int(value) / 1000, usegmt=True)
            if rule.action.startswith("set"):
                headers[rule.name] = value
            else:
                headers.append(rule.name, value)


def origins_of(text: str) -> re.Pattern[str] | None:
    """Return a pattern for a comma-separated list of origins, in which `*` matches anything; None if it is empty."""
    patterns = [re.escape(origin).replace(r"\*", ".*") for origin in _listed(text)]
    return re.compile("|".join(patterns)) if patterns else None


def allow_origins(app: ASGIApp, origins: re.Pattern[str], methods: str) -> ASGIApp:
    """Return `app` with CORS for these origins.

    Without `methods`, GET, POST and HEAD are allowed, as in Kafka Connect. Unlike there, pages of these may send
    credentials in `Authorization`.
    """
    return CORSMiddleware(
        app,
        allow_origin_regex=origins.pattern,
        allow_methods=_listed(methods) or ["GET", "POST", "HEAD"],
        allow_headers=["X-Requested-With", "Content-Type", "Accept", "Origin", "Authorization"],
    )


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
