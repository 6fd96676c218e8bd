"""The executor's end of the channel to the worker: small signed HTTP requests with JSON bodies."""

import http.client
import os
import ssl
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from fencepost.api import FencedError
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.message import Path
from fencepost.task.channel.signature import SECRET_VARIABLE, Signer
from fencepost.task.channel.split_message import (
    RunRequest,
    SplitAdmission,
    SplitCopies,
    SplitExpiry,
    SplitReport,
    SplitRun,
    SplitUnchanged,
    TemporaryFailure,
)

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


class SplitClient:
    """The worker as the executor of a split sees it. Calls raise ChannelError."""

    def __init__(self, channel_url: str, run: str) -> None:
        self._channel = ChannelClient(channel_url)
        self._run = run

    def _call(self, path: Path, body: dict[str, Any]) -> dict[str, Any]:
        return self._channel.call(path, body, timeout_s=120)

    def _ask(self, path: Path) -> dict[str, Any]:
        return self._call(path, RunRequest(self._run).to_json())

    def spec(self) -> SplitRun:
        return SplitRun.from_json(self._ask(Path.SPLIT_SPEC))

    def admit(self) -> SplitAdmission:
        """Ask to write, after every `init_transactions` (steps 6 and 7 of docs/architecture.md). Raises FencedError."""
        answer = SplitAdmission.from_json(self._ask(Path.SPLIT_ADMIT))
        if not answer.is_admitted:
            raise FencedError(f"split run {self._run} is not admitted: {answer.reason}")
        return answer

    def is_unchanged(self) -> bool:
        """Say whether the splits still are as planned; called before every commit."""
        return SplitUnchanged.from_json(self._ask(Path.SPLIT_UNCHANGED)).is_unchanged

    def copy(self, copies: Sequence[OffsetCopy]) -> None:
        """Let the worker copy offsets to its own topic; returns once they are acknowledged."""
        self._call(Path.SPLIT_COPY, SplitCopies(self._run, tuple(copies)).to_json())

    def report(self, rows: Sequence[int], *, skipped: bool, commit_s: float) -> None:
        """Report that the splits are committed, with their numbers of rows, or were found already done (`skipped`)."""
        self._call(Path.SPLIT_REPORT, SplitReport(self._run, tuple(rows), skipped, commit_s).to_json())

    def expired(self, after_s: float) -> None:
        """Report that the broker ended the transaction because it was open for longer than its timeout."""
        self._call(Path.SPLIT_EXPIRED, SplitExpiry(self._run, after_s).to_json())

    def temporary_failure(self, reason: str) -> None:
        """Report that the run ends with a passing error, so that it is retried without a limit."""
        self._call(Path.SPLIT_TEMPORARY_FAILURE, TemporaryFailure(self._run, reason).to_json())
