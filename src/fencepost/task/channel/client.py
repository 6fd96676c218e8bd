"""The executor's end of the channel to the worker: small signed HTTP requests with JSON bodies."""

import http.client
import os
import ssl
import threading
from typing import Any
from urllib.parse import urlsplit

import orjson

from fencepost.task.channel.signature import SECRET_VARIABLE, Signer

CA_VARIABLE = "FENCEPOST_CHANNEL_CA"
"""The environment variable with the PEM text of the authority that signed the channel's certificate."""


class ChannelError(Exception):
    """The worker could not be reached, or refused the request."""


class ChannelFailedError(ChannelError):
    """The worker failed while it answered, or the request could not be written. A later call may succeed."""


class ChannelRefusedError(ChannelError):
    """The worker answered with a refusal: it does not know this slot or run, or does so no longer."""


class ChannelClient:
    """Calls the worker. Safe for many threads: each has its own connection."""

    def __init__(self, url: str, secret: bytes | None = None, ca_pem: str | None = None) -> None:
        self._url = urlsplit(url)
        self._signer = Signer(secret if secret is not None else os.environ.get(SECRET_VARIABLE, "").encode())
        self._ca_pem = ca_pem if ca_pem is not None else os.environ.get(CA_VARIABLE)
        self._local = threading.local()

    def call(self, path: str, body: dict[str, Any], *, timeout_s: float = 30.0) -> dict[str, Any]:
        """POST `body` and return the answer.

        Raises ChannelError: ChannelRefusedError if the worker refuses, ChannelFailedError if it fails.
        """
        try:
            data = orjson.dumps(body)
        except TypeError as error:
            raise ChannelFailedError(f"{path}: the request cannot be written as JSON: {error}") from error
        for is_last in (False, True):
            try:
                return self._exchange(path, data, timeout_s)
            except (OSError, http.client.HTTPException) as error:
                self._forget()
                # A kept connection may have been closed since; the failure of a new one is final.
                if is_last or isinstance(error, TimeoutError):
                    raise ChannelError(f"{self._url.geturl()}{path}: {error!r}") from error
        raise AssertionError("unreachable")

    def release(self) -> None:
        """Close the calling thread's connection until its next call, which may be far away."""
        self._forget()

    def _exchange(self, path: str, data: bytes, timeout_s: float) -> dict[str, Any]:
        """Send a request, and repeat it once if the worker's clock differs from what we assumed."""
        signed, response, answer = self._post(path, data, timeout_s)
        if response.status == 403 and self._signer.learns(signed, dict(response.headers)):
            _, response, answer = self._post(path, data, timeout_s)
        if response.status != 200:
            kind = ChannelFailedError if response.status >= 500 else ChannelRefusedError
            raise kind(f"{path}: {response.status} {answer.decode(errors='replace')}")
        result: dict[str, Any] = orjson.loads(answer)
        return result

    def _post(self, path: str, data: bytes, timeout_s: float) -> tuple[dict[str, str], http.client.HTTPResponse, bytes]:
        connection = self._connection(timeout_s)
        signed = self._signer.sign("POST", path, data)
        connection.request("POST", path, body=data, headers={"Content-Type": "application/json", **signed})
        response = connection.getresponse()
        return signed, response, response.read()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect(timeout_s)
            self._local.connection = connection
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        return connection

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = str(self._url.hostname), self._url.port
        if self._url.scheme == "https":
            context = ssl.create_default_context(cadata=self._ca_pem or None)
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def _forget(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None
