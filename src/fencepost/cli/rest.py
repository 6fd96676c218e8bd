"""Commands' way to the REST API of workers, ours or Kafka Connect's: with the credentials of the environment.

    FENCEPOST_REST_USER      NAME:PASSWORD, or only NAME: the password is asked for
    FENCEPOST_REST_TOKEN     a bearer token
    FENCEPOST_REST_CACERT    a file (PEM) with the authorities of the workers' certificates; default: the system's
    FENCEPOST_REST_CERT      a file (PEM) with a client certificate and its key

They are not options, because every user of a machine sees its command lines.
"""

import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from fencepost.config import ConfigError

if TYPE_CHECKING:
    import httpx

USER, TOKEN = "FENCEPOST_REST_USER", "FENCEPOST_REST_TOKEN"
CACERT, CERT = "FENCEPOST_REST_CACERT", "FENCEPOST_REST_CERT"


def rest_client(url: str, timeout_s: float, environment: Mapping[str, str] = os.environ) -> "httpx.Client":
    """Return a client for the workers at `url`. Raises ConfigError, which names the variable."""
    import httpx

    headers = {"authorization": f"Bearer {environment[TOKEN]}"} if environment.get(TOKEN) else {}
    return httpx.Client(
        base_url=url,
        timeout=timeout_s,
        follow_redirects=True,
        verify=_tls(environment) or True,
        auth=_user(environment.get(USER)),
        headers=headers,
    )


def ensure_allowed(url: str, answer: "httpx.Response") -> None:
    """Raise ConfigError, with the next step, if the workers do not know the caller, or do not let it do that."""
    if answer.status_code == 401:
        raise ConfigError(f"{url}: the worker wants to know who you are: set {USER}=NAME:PASSWORD, or {TOKEN}")
    if answer.status_code == 403:
        raise ConfigError(f"{url}: {_message(answer)}")


def _user(text: str | None) -> tuple[str, str] | None:
    if not text:
        return None
    name, separator, password = text.partition(":")
    return name, password if separator else typer.prompt(f"Password of {name}", hide_input=True, err=True)


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext | None:
    cacert, cert = environment.get(CACERT), environment.get(CERT)
    if not cacert and not cert:
        return None
    variable = CACERT
    try:
        context = ssl.create_default_context(cafile=cacert or None)
        if cert:
            variable = CERT
            context.load_cert_chain(cert, password=lambda: typer.prompt(f"Password of {cert}", hide_input=True))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{variable}={environment.get(variable)}: cannot be used: {error}") from None
    return context


def _message(answer: "httpx.Response") -> str:
    try:
        body: Any = answer.json()
        return str(body["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"
