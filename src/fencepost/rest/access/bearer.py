"""Bearer tokens of an OpenID Connect issuer: JSON web tokens (RFC 7519) that its keys have signed.

A token is taken if a current key of the issuer has signed it with an asymmetric algorithm, and issuer, audience and
times are right. Its claims say the caller's name and groups.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.config.rest import RestOidcConfig, ensure_secure_url
from fencepost.rest.access.principal import Checked, Principal, UncheckedError

if TYPE_CHECKING:
    from joserfc.jwk import Key, KeySet

log = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
LEEWAY_S = 30
KNOWN_FOR_S = 60.0
"""How long a token is not checked again: so long it may outlive a key that the issuer withdraws."""

_KEYS_FOR_S = 600.0
_LOOK_AGAIN_S = 10.0
_TRY_AGAIN_S = 2.0
_ANSWER_S = 5.0
_LONGEST = 16_384
_LARGEST_ANSWER = 1 << 20
_DISCOVERY = "/.well-known/openid-configuration"

Fetch = Callable[[str], Any]


def fetch_json(url: str) -> Any:
    """Return the JSON at a URL. Raises UncheckedError. SSL_CERT_FILE names other authorities than the system's."""
    import httpx

    body = bytearray()
    try:
        with httpx.stream("GET", url, timeout=_ANSWER_S, headers={"accept-encoding": "identity"}) as answer:
            for chunk in answer.raise_for_status().iter_bytes():
                body += chunk
                if len(body) > _LARGEST_ANSWER:
                    raise ValueError(f"its answer has more than {_LARGEST_ANSWER} bytes")
        return json.loads(body)
    except (httpx.HTTPError, ValueError) as error:
        raise UncheckedError(f"Tokens cannot be checked: {url} does not answer as it should ({error})") from None


@dataclass
class _Held:
    keys: "KeySet"
    read_at_s: float


class IssuerKeys:
    """The keys of an issuer: read again after ten minutes, and when a token names one that is not known. Thread-safe.

    While the issuer is away, the keys from before stay in use.
    """

    def __init__(self, config: RestOidcConfig, fetch: Fetch, now_s: Callable[[], float]) -> None:
        self._issuer = config.oidc_issuer or ""
        self._url = config.oidc_jwks_url
        self._fetch = fetch
        self._now_s = now_s
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._looked_at_s = -_LOOK_AGAIN_S
        self._failed: UncheckedError | None = None

    def find(self, kid: str | None) -> "Key | None":
        """Return the key that a token names; the only one if it names none. Raises UncheckedError if none were read."""
        held = self._held
        if held is None or self._now_s() - held.read_at_s > _KEYS_FOR_S:
            held = self._read()
        found = _find(held.keys, kid)
        return found or _find(self._read().keys, kid)

    def _read(self) -> _Held:
        with self._lock:
            now_s = self._now_s()
            if self._held is not None and now_s - self._looked_at_s < _LOOK_AGAIN_S:
                return self._held  # tokens with made-up keys must not keep the issuer busy
            if self._failed is not None and self._held is None and now_s - self._looked_at_s < _TRY_AGAIN_S:
                raise self._failed  # each caller would wait for a silent issuer, one after the other
            try:
                self._held = _Held(self._fetched(), now_s)
                self._looked_at_s = now_s
            except UncheckedError as error:
                self._failed, self._looked_at_s = error, self._now_s()
                if self._held is None:
                    raise
                log.warning("%s; its keys from before stay in use", error)
            return self._held

    def _fetched(self) -> "KeySet":
        from joserfc.jwk import KeySet

        url = self._url or self._discovered()
        found = self._fetch(url)
        given = found.get("keys") if isinstance(found, dict) else None
        keys = [key for key in map(_key_of, given if isinstance(given, list) else []) if key is not None]
        if not keys:
            raise UncheckedError(f"Tokens cannot be checked: {url} has no keys that this worker can read")
        return KeySet(keys)

    def _discovered(self) -> str:
        url = self._issuer.rstrip("/") + _DISCOVERY
        found = self._fetch(url)
        if not isinstance(found, dict) or found.get("issuer") != self._issuer or "jwks_uri" not in found:
            raise UncheckedError(f"Tokens cannot be checked: {url} does not describe the issuer {self._issuer}")
        keys = str(found["jwks_uri"])
        try:
            ensure_secure_url(keys)
        except ValueError as error:
            raise UncheckedError(f"Tokens cannot be checked: the jwks_uri {keys} of {url} {error}") from None
        return keys


class BearerTokens:
    """The `Authenticator` of an issuer's tokens."""

    scheme = "bearer"
    challenge = 'Bearer realm="fencepost"'

    def __init__(
        self,
        config: RestOidcConfig,
        fetch: Fetch = fetch_json,
        wall_s: Callable[[], float] = time.time,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._audience = config.oidc_issuer or "", config.oidc_audience or ""
        self._name, self._groups = config.oidc_name_claim, config.oidc_groups_claim
        self._keys = IssuerKeys(config, fetch, now_s)
        self._wall_s = wall_s
        self._now_s = now_s

    def guessed_name(self, credentials: str) -> None:
        """Return None: nobody can guess a signature, and tokens that have expired are sent by mistake."""

    def authenticate(self, credentials: str) -> Checked | None:
        from joserfc.errors import JoseError

        try:
            claims = self._claims(credentials)
        except (JoseError, ValueError, TypeError) as error:
            log.debug("a token is refused: %s", type(error).__name__)
            return None
        name = None if claims is None else _at(claims, self._name)
        if claims is None or not isinstance(name, str) or not name:
            return None
        left_s = claims["exp"] + LEEWAY_S - self._wall_s()
        principal = Principal(name, frozenset(_texts(_at(claims, self._groups))))
        return Checked(principal, self._now_s() + min(KNOWN_FOR_S, left_s))

    def _claims(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token that is right. Raises JoseError and others, or returns None, if it is not."""
        from joserfc import jws, jwt

        if len(token) > _LONGEST:
            return None
        header = jws.extract_compact(token.encode("ascii")).headers()
        kid = header.get("kid")
        if header.get("alg") not in ALGORITHMS or (kid is not None and not isinstance(kid, str)):
            return None
        key = self._keys.find(kid)
        if key is None or key.get("use", "sig") != "sig":
            return None
        claims = jwt.decode(token, key, algorithms=ALGORITHMS).claims
        jwt.JWTClaimsRegistry(
            now=int(self._wall_s()),
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._audience},
            exp={"essential": True},
        ).validate(claims)
        return claims


def _key_of(fields: Any) -> "Key | None":
    """Return a key of a set; None for one of a kind that is not known here, which RFC 7517 (section 5) says to skip."""
    from joserfc.jwk import import_key

    if not isinstance(fields, dict):
        return None
    try:
        return import_key(fields)
    except Exception as error:  # joserfc and cryptography have many for what they do not understand
        log.debug("a key of the issuer is skipped: %r", error)
        return None


def _find(keys: "KeySet", kid: str | None) -> "Key | None":
    found = [key for key in keys if kid is None or key.kid == kid]
    return found[0] if len(found) == 1 else None


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its name, else by its path of fields."""
    found: Any = claims.get(path)
    if found is not None:
        return found
    found = claims
    for field in path.split("."):
        found = found.get(field) if isinstance(found, dict) else None
    return found


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]
