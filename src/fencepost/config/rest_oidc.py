"""The settings of bearer tokens for the REST API."""

import importlib.util
from urllib.parse import urlsplit

from fencepost.config.check import parsed_by
from fencepost.config.listener import is_loopback
from fencepost.config.setting import LOW, MEDIUM, Config, setting


def ensure_secure_url(text: str) -> None:
    """Raise ValueError unless a URL is https, or on this machine."""
    parts = urlsplit(text)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
        raise ValueError("must be an https URL: whoever can change its answers can issue tokens")


_URL = parsed_by(ensure_secure_url, "an https URL")


class RestOidcConfig(Config):
    """Whose tokens are taken, and what they say about callers."""

    oidc_issuer: str | None = setting(
        "rest.oidc.issuer.url",
        default=None,
        check=_URL,
        importance=MEDIUM,
        doc="The issuer of bearer tokens (OpenID Connect), exactly as tokens name it in `iss`. Its keys are found by "
        "its `/.well-known/openid-configuration`. Needs the extra `oidc`.",
    )
    oidc_audience: str | None = setting(
        "rest.oidc.audience",
        default=None,
        importance=MEDIUM,
        doc="What tokens for this API have in `aud`; required with an issuer, whose other tokens are for other "
        "services.",
    )
    oidc_jwks_url: str | None = setting(
        "rest.oidc.jwks.url",
        default=None,
        check=_URL,
        importance=LOW,
        doc="Where the issuer's keys are, if it does not say so itself.",
    )
    oidc_name_claim: str = setting(
        "rest.oidc.name.claim", default="sub", importance=LOW, doc="The claim that is the name of the caller."
    )
    oidc_groups_claim: str = setting(
        "rest.oidc.groups.claim",
        default="groups",
        importance=LOW,
        doc="The claim that has the caller's groups; `a.b` is the field `b` of `a`, as in `realm_access.roles`.",
    )

    def oidc_faults(self) -> list[str]:
        """Return what is wrong with these settings together."""
        issuer, audience = RestOidcConfig.key_of("oidc_issuer"), RestOidcConfig.key_of("oidc_audience")
        if self.oidc_issuer is None:
            jwks = RestOidcConfig.key_of("oidc_jwks_url")
            given = {audience: self.oidc_audience, jwks: self.oidc_jwks_url}
            return [f"{key}: it has no effect without {issuer}; set that too" for key, value in given.items() if value]
        if not self.oidc_audience:
            return [f"{issuer}: set {audience} too, so that the issuer's tokens for other services are not taken"]
        if importlib.util.find_spec("joserfc") is None:
            return [f"{issuer}: it needs a library that is not installed: `pip install 'fencepost[oidc]'`"]
        return []
