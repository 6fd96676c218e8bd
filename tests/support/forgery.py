"""Requests between workers: good ones, and every way to forge one, by somebody who knows more than any attacker should.

Forgers know the session key here, so that each forgery is wrong in one thing alone.
"""

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from fencepost.cluster.session_key import (
    ALGORITHM,
    NONCE,
    SIGNATURE,
    TIME,
    WINDOW_MS,
    body_signature,
    for_caller,
    signed_headers,
)
from fencepost.rest.access.caller import CALLER, encoded
from fencepost.rest.access.principal import Principal
from fencepost.storage.change import SessionKey

_ALGORITHM = "HmacSHA256"
_OTHER_PLACES = (("POST", "/connectors/other/tasks"), ("PUT", "/connectors/other/fence"), ("GET", "/internal/figures"),
                 ("DELETE", "/connectors/kept"), ("DELETE", "/connectors/kept/offsets"))  # fmt: skip


@dataclass(frozen=True)
class Call:
    """An internal request; `caller` is the name of whom it is forwarded for."""

    method: str
    target: str
    body: bytes = b""
    caller: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def signed(self, key: SessionKey, audience: str, *, ago_ms: int = 0, method: str | None = None) -> "Call":
        """Return it as a worker sends it to another."""
        stated = None if self.caller is None else encoded(Principal(self.caller))
        signed = signed_headers(
            key, _ALGORITHM, method or for_caller(self.method, stated), self.target, self.body, audience=audience,
            time_ms=int(time.time() * 1000) - ago_ms, nonce=uuid.uuid4().hex,
        )  # fmt: skip
        more = {} if stated is None else {CALLER: stated}
        return replace(self, headers={**signed, **more, "content-type": "application/json"})

    def having(self, **headers: str) -> "Call":
        return replace(self, headers={**self.headers, **headers})

    def lacking(self, *names: str) -> "Call":
        return replace(self, headers={name: value for name, value in self.headers.items() if name not in names})


@dataclass(frozen=True)
class Forger:
    """Makes wrong requests of good ones; `other` is another worker's incarnation."""

    key: SessionKey
    audience: str
    other: str
    random: random.Random

    def good(self, call: Call) -> Call:
        return call.signed(self.key, self.audience)

    def forged(self, call: Call, number: int) -> Call:
        """Return the request with one thing wrong, which the number chooses."""
        return _WAYS[number % len(_WAYS)](self, call)


def _elsewhere(forger: Forger, call: Call) -> Call:
    method, target = forger.random.choice([place for place in _OTHER_PLACES if place != (call.method, call.target)])
    return replace(forger.good(call), method=method, target=target)


def _of_another_time(forger: Forger, call: Call) -> Call:
    ago_ms = forger.random.choice((1, -1)) * (WINDOW_MS + forger.random.randint(20_000, 10**9))
    return call.signed(forger.key, forger.audience, ago_ms=ago_ms)


def _with_other_key(forger: Forger, call: Call) -> Call:
    return call.signed(SessionKey(forger.random.randbytes(32), _ALGORITHM, 0), forger.audience)


def _changed(name: str) -> Callable[[Forger, Call], Call]:
    def change(forger: Forger, call: Call) -> Call:
        good = forger.good(call)
        return good.having(**{name: good.headers[name] + forger.random.choice("019")})

    return change


def _bare(*names: str) -> Callable[[Forger, Call], Call]:
    return lambda forger, call: forger.good(call).lacking(*names)


def _of_body_only(forger: Forger, call: Call) -> Call:
    signature = body_signature(forger.key, _ALGORITHM, call.body)
    return forger.good(call).lacking(TIME, NONCE).having(**{SIGNATURE: signature})


def _for_another(forger: Forger, call: Call) -> Call:
    """Return it for another caller than the signature has; for one at all, if it is a worker's own."""
    stated = encoded(Principal("alice" if call.caller is None else "root", frozenset({"admin"})))
    return forger.good(call).having(**{CALLER: stated}) if call.caller else _elsewhere(forger, call)


def _as_another_kind(forger: Forger, call: Call) -> Call:
    """Return it with the signature of a worker's own request if it is for a caller, and the other way round."""
    method = call.method if call.caller else for_caller(call.method, encoded(Principal("alice")))
    return call.signed(forger.key, forger.audience, method=method)


_WAYS: tuple[Callable[[Forger, Call], Call], ...] = (
    _elsewhere,
    _of_another_time,
    _with_other_key,
    _of_body_only,
    _for_another,
    _as_another_kind,
    lambda forger, call: call.signed(forger.key, forger.other),
    lambda forger, call: replace(forger.good(call), body=call.body + b" "),
    lambda forger, call: replace(forger.good(call), target=call.target + ("&" if "?" in call.target else "?") + "a=b"),
    lambda forger, call: forger.good(call).having(
        **{ALGORITHM: forger.random.choice(("HmacSHA512", "HmacMD5", "none"))}
    ),
    lambda forger, call: forger.good(call).having(**{SIGNATURE: forger.random.randbytes(32).hex()}),
    *map(_changed, (SIGNATURE, TIME, NONCE)),
    *map(_bare, (SIGNATURE, TIME, NONCE, ALGORITHM)),
    _bare(SIGNATURE, TIME, NONCE, ALGORITHM),
)
WAYS = len(_WAYS)
