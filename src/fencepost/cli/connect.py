"""Commands' way to the REST API of workers, ours or Kafka Connect's: which ones, and with whose credentials.

A command's workers are the first of these that is given:

    --url, --context         the command's options
    FENCEPOST_URL            a worker's REST API
    FENCEPOST_CONTEXT        the name of a context
    `fencepost context use`  the current context
    http://127.0.0.1:8083

A context has its own credentials. Where there is none, or none in it, they come from the environment; to an address of
`--url` or FENCEPOST_URL go those of the environment, else those of the context that has this address:

    FENCEPOST_REST_USER      NAME:PASSWORD, or only NAME: the password is asked for
    FENCEPOST_REST_TOKEN     a bearer token
    FENCEPOST_REST_CACERT    a file (PEM) with the authorities of the workers' certificates; default: the system's
    FENCEPOST_REST_CERT      a file (PEM) with a client certificate and its key

They are not options, because every user of a machine sees its command lines.
"""

import os
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import typer

from fencepost.api.errors import ConnectError
from fencepost.cli.context import Context, Contexts, secret_from
from fencepost.cluster.errors import error_message
from fencepost.config import ConfigError

if TYPE_CHECKING:
    import httpx

USER, TOKEN = "FENCEPOST_REST_USER", "FENCEPOST_REST_TOKEN"
CACERT, CERT = "FENCEPOST_REST_CACERT", "FENCEPOST_REST_CERT"
URL, CONTEXT = "FENCEPOST_URL", "FENCEPOST_CONTEXT"
DEFAULT_URL = "http://127.0.0.1:8083"
_UNTRUSTED = (18, 19, 20, 21)
"""OpenSSL's codes for a certificate whose authority is not known, or that is its own."""
_USERINFO = re.compile(r"^(\w+://)?[^/\s]*@")


@dataclass(frozen=True)
class File:
    """A file of certificates; `named` is how the user calls it in a message."""

    path: str
    named: str


@dataclass(frozen=True)
class Access:
    """Where the workers are, and who asks them.

    Attributes:
        url: A worker's REST API.
        named: What the user has given, without a password, for messages: `--url http://…`, `context prod (http://…)`.
        user: For basic authentication; without `password` it is asked for.
        token: A bearer token.
        is_default: Whether nobody has named workers.
    """

    url: str
    named: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    cacert: File | None = None
    cert: File | None = None
    is_default: bool = False

    @property
    def place(self) -> str:
        """Return where the workers are, for people: the address, with the context's name if it has one."""
        return self.named if self.named.startswith("context ") else _shown(self.url)

    @property
    def next_step(self) -> str:
        """Return what to do if no worker answers there."""
        if self.is_default:
            return f"start one with `fencepost dev`, or name one with --url, {URL} or `fencepost context add`"
        return "start it, or set this to a worker's REST address"

    @property
    def asks(self) -> bool:
        """Return whether a password must be asked for."""
        return self.user is not None and self.password is None


def access(url: str | None = None, context: str | None = None, environment: Mapping[str, str] = os.environ) -> Access:
    """Return the workers that a command is about, and who asks. Raises ConfigError, with the next step."""
    if url and context:
        raise ConfigError("--url and --context: give one of them")
    if url:
        return _of_url(url, f"--url {_shown(url)}", environment)
    if not context and environment.get(URL):
        return _of_url(environment[URL], f"{URL}={_shown(environment[URL])}", environment)
    contexts = Contexts.load()
    name = context or environment.get(CONTEXT) or contexts.current
    if name is None:
        return replace(_of_url(DEFAULT_URL, DEFAULT_URL, environment), is_default=True)
    return _of_context(name, contexts.named(name), environment)


def rest_client(access: Access, timeout_s: float) -> "httpx.Client":
    """Return a client for the workers. Raises ConfigError, which names what cannot be used."""
    import httpx

    return httpx.Client(
        base_url=access.url,
        timeout=timeout_s,
        follow_redirects=True,
        verify=_tls(access) or True,
        auth=_user(access),
        headers={"authorization": f"Bearer {access.token}"} if access.token else {},
    )


def ensure_allowed(access: Access, answer: "httpx.Response") -> None:
    """Raise ConfigError, with the next step, if the workers do not know the caller, or do not let it do that."""
    if answer.status_code == 401:
        raise ConfigError(
            f"{access.named}: the worker wants to know who you are: set {USER}=NAME:PASSWORD, or {TOKEN}, or add a "
            "context with --user or --token-from"
        )
    if answer.status_code == 403:
        raise ConfigError(f"{access.named}: {error_message(answer)}")


def no_answer(access: Access, error: Exception) -> ConfigError:
    """Return what to say when a request could not be sent: a worker may be there, with another certificate."""
    refused = _refused_certificate(error)
    if refused is None:
        text = str(error) or type(error).__name__
        return ConfigError(f"{access.named}: no worker answers ({text}); {access.next_step}")
    why = refused.verify_message
    if refused.verify_code not in _UNTRUSTED:
        return ConfigError(f"{access.named}: its certificate is refused: {why}")
    by = f" by {access.cacert.named}" if access.cacert else ""
    return ConfigError(
        f"{access.named}: its certificate is not trusted{by} ({why}): name its authority with {CACERT}, or use "
        "--context"
    )


def _refused_certificate(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def _of_url(url: str, named: str, environment: Mapping[str, str]) -> Access:
    """Return the access to an address: with the credentials of the environment, else of the context that has it."""
    given, found = _of_environment(url, named, environment), _context_at(url)
    if found is None:
        return given
    if given.user or given.token or given.cert:
        return replace(given, cacert=given.cacert or _authority(*found))
    return replace(_of_context(*found, environment), url=url, named=named)


def _context_at(url: str) -> tuple[str, Context] | None:
    """Return the context with this address, the current one rather than another; None if that is not clear."""
    try:
        contexts = Contexts.load()
    except ConfigError:  # nobody has asked for a context
        return None
    found = {name: each for name, each in contexts.by_name.items() if each.url.rstrip("/") == url.rstrip("/")}
    name = contexts.current if contexts.current in found else next(iter(found)) if len(found) == 1 else None
    return None if name is None else (name, found[name])


def _authority(name: str, context: Context) -> File | None:
    return File(context.cacert, f"context {name}: cacert {context.cacert}") if context.cacert else None


def _of_environment(url: str, named: str, environment: Mapping[str, str]) -> Access:
    name, separator, password = (environment.get(USER) or "").partition(":")
    return Access(
        url,
        named,
        name or None,
        password if separator else None,
        environment.get(TOKEN) or None,
        _file(CACERT, environment),
        _file(CERT, environment),
    )


def _of_context(name: str, context: Context, environment: Mapping[str, str]) -> Access:
    """Return a context's access. Credentials of the environment count if it has none at all."""
    own = f"context {name} ({_shown(context.url)})"
    if not (context.user or context.token_from or context.cert):
        given = _of_environment(context.url, own, environment)
    else:
        given = Access(
            context.url,
            own,
            context.user,
            secret_from(context.password_from, environment) if context.password_from else None,
            secret_from(context.token_from, environment) if context.token_from else None,
            None,
            File(context.cert, f"context {name}: cert {context.cert}") if context.cert else None,
        )
    return replace(given, cacert=_authority(name, context) or _file(CACERT, environment))


def _shown(url: str) -> str:
    """Return an address without the user and the password that it may have."""
    return _USERINFO.sub(r"\1", url)


def _file(variable: str, environment: Mapping[str, str]) -> File | None:
    path = environment.get(variable)
    return File(path, f"{variable}={path}") if path else None


def _user(access: Access) -> tuple[str, str] | None:
    if access.user is None:
        return None
    if access.asks:
        return access.user, typer.prompt(f"Password of {access.user}", hide_input=True, err=True)
    return access.user, access.password or ""


def _tls(access: Access) -> ssl.SSLContext | None:
    if access.cacert is None and access.cert is None:
        return None
    used = access.cacert
    try:
        context = ssl.create_default_context(cafile=access.cacert.path if access.cacert else None)
        if access.cert:
            used = access.cert
            asked = f"Password of {used.path}"
            context.load_cert_chain(used.path, password=lambda: typer.prompt(asked, hide_input=True, err=True))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{used.named if used else ''}: cannot be used: {error}") from None
    return context


Json = Any
_TIMEOUT_S = 100.0  # workers answer within 90 s, even if it is with an error
_PATIENCE_S = 60.0
_PAUSE_S = 0.5
_PASSING = (409, 429, 503)  # a rebalance; too many requests; a worker without a leader
_REBALANCE = "because a rebalance is expected"  # with 500 where Kafka Connect is asked for a connector's config
_EXISTS = "already exists"


class RefusedError(ConnectError):
    """Workers have refused a request, or failed to carry it out. The text is theirs."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Connect(AbstractContextManager["Connect"]):
    """Workers of one cluster. Answers that a rebalance is the cause of are asked again for a minute.

    Every request raises RefusedError, or ConfigError if nobody answers or the caller may not ask.
    """

    def __init__(
        self,
        access: Access,
        timeout_s: float = _TIMEOUT_S,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.access = access
        self._client = rest_client(access, timeout_s)
        self._pause = pause

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, *parts: object, **parameters: object) -> Json:
        """Return what is at a path, given by its parts."""
        return self.ask("GET", parts, parameters=parameters)

    def find(self, *parts: object, **parameters: object) -> Json | None:
        """Return what is at a path; None if there is nothing, or a worker of an older version does not know it."""
        try:
            return self.get(*parts, **parameters)
        except RefusedError as error:
            if error.status in (404, 405):
                return None
            raise

    def brokers(self) -> str | None:
        """Return the bootstrap servers of the workers' Kafka; None if they do not say them: Kafka Connect's do not."""
        found = self.find("kafka")
        return None if found is None else str(found["bootstrap_servers"])

    def put(self, *parts: object, body: Json = None) -> Json:
        """Put something to a path."""
        return self.ask("PUT", parts, body=body)

    def post(self, *parts: object, body: Json = None, **parameters: object) -> Json:
        """Post something to a path."""
        return self.ask("POST", parts, body=body, parameters=parameters)

    def patch(self, *parts: object, body: Json) -> Json:
        """Change part of what is at a path."""
        return self.ask("PATCH", parts, body=body)

    def delete(self, *parts: object) -> Json:
        """Delete what is at a path."""
        return self.ask("DELETE", parts)

    def ask(
        self, method: str, parts: Sequence[object], *, body: Json = None, parameters: Mapping[str, object] | None = None
    ) -> Json:
        """Send a request and return the body of its answer; None if that is empty."""
        path = "/" + "/".join(quote(str(part), safe="") for part in parts)
        given_up = time.monotonic() + _PATIENCE_S
        while True:
            answer = self._send(method, path, body, parameters or {})
            if answer.is_success:
                return answer.json() if answer.content else None
            ensure_allowed(self.access, answer)
            message = error_message(answer)
            is_passing = (answer.status_code in _PASSING or _REBALANCE in message) and _EXISTS not in message
            if not is_passing or time.monotonic() > given_up:
                raise RefusedError(answer.status_code, message)
            self._pause(_PAUSE_S)

    def _send(self, method: str, path: str, body: Json, parameters: Mapping[str, object]) -> "httpx.Response":
        import httpx

        try:
            return self._client.request(method, path, json=body, params=dict(parameters))  # type: ignore[arg-type]
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise no_answer(self.access, error) from None
