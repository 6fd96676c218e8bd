"""The REST API of Kafka Connect, as commands use it; workers of ours have the same."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from fencepost.api.errors import ConnectError
from fencepost.cli.rest import Access, ensure_allowed, no_answer, rest_client
from fencepost.cluster.error_message import error_message

if TYPE_CHECKING:
    import httpx

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
