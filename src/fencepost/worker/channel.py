"""The worker's end of the channel to its slots and splits: signed JSON over HTTP, on loopback or with TLS."""

import logging
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

import orjson

from fencepost.task.channel.client import SignatureError, SignatureVerifier, StaleError

log = logging.getLogger(__name__)

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_MOST_LOGGED = 1_000
_MOST_UNVERIFIED = 65_536  # bytes

Handler = Callable[[dict[str, Any]], dict[str, Any]]


class RefusedError(Exception):
    """The worker refuses a request: it does not know this slot, task or run, or does so no longer."""


@dataclass(frozen=True)
class ChannelTls:
    """Files of the channel's certificate and key (PEM), and the time that a caller has for its handshake."""

    certificate: str
    key: str
    handshake_s: float = 10.0

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # all tasks of a slot start at the same moment

    def __init__(self, host: str, handler: type[BaseHTTPRequestHandler], tls: ChannelTls | None) -> None:
        super().__init__((host, 0), handler)
        self._handshake_s = tls.handshake_s if tls is not None else 0.0
        self._context = tls.context() if tls is not None else None

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Do the handshake in the connection's own thread: a silent peer would else block all other connections."""
        if self._context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(self._handshake_s)
        with self._context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log one debug message instead of printing a stack, as executors are killed in the middle of requests."""
        log.debug("channel: the connection from %s broke", client_address, exc_info=True)


class ChannelServer:
    """Has an address once it is created, and serves from `start` on: handlers need to know the address.

    A request with a wrong signature is answered with 403, and nothing else happens.
    """

    def __init__(self, secret: bytes, *, host: str = "127.0.0.1", tls: ChannelTls | None = None) -> None:
        verifier = SignatureVerifier(secret)
        self._routes: dict[str, Handler] = {}

        class Request(_Request):
            routes = self._routes
            signatures = verifier
            refusals = _Refusals()

        self._server = _Server(host, Request, tls)
        self._scheme = "http" if tls is None else "https"
        self._host = host
        self._thread = threading.Thread(target=self._server.serve_forever, name="channel", daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self._host}:{self._server.server_address[1]}"

    def start(self, handlers: Mapping[str, Handler]) -> None:
        """Serve `handlers` by path."""
        self._routes |= handlers
        self._thread.start()

    def stop(self) -> None:
        if self._thread.ident is not None:
            self._server.shutdown()  # waits for the serving thread
        self._server.server_close()


class _Refusals:
    """Logs refused requests, once for each caller and reason: a slot without the right secret cannot report them."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()

    def log(self, host: str, reason: str) -> None:
        if (host, reason) not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add((host, reason))
            log.warning("channel: requests from %s are refused: %s", host, reason)


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 120
    routes: dict[str, Handler]
    signatures: SignatureVerifier
    refusals: _Refusals

    def do_POST(self) -> None:
        length = self._length()
        try:
            self.signatures.verify_head("POST", self.path, self.headers)  # type: ignore[arg-type]
            body, length = self.rfile.read(length), 0
            self.signatures.ensure_body(body, self.headers)  # type: ignore[arg-type]
            handler = self.routes.get(self.path)
            if handler is None:
                raise RefusedError("no such path")
            self._answer(200, handler(orjson.loads(body)))
        except StaleError as error:
            self.rfile.read(length)  # the caller is one of ours
            self._answer(403, {"message": str(error)}, error.headers)
        except SignatureError as error:
            self.refusals.log(self.client_address[0], str(error))
            self._leave_unread(length)
            self._answer(403, {"message": str(error)})
        except RefusedError as error:
            self._answer(409, {"message": str(error)})
        except ConnectionError as error:
            log.debug("channel: %s", error)
        except BaseException as error:  # an author's code, such as is_unchanged(), may raise more than Exception
            log.exception("channel: %s failed", self.path)
            self._answer(500, {"message": repr(error)})

    def _length(self) -> int:
        text = self.headers.get("Content-Length") or "0"
        return int(text) if text.isascii() and text.isdigit() else 0

    def _leave_unread(self, length: int) -> None:
        """Read no large body of a stranger: its connection is closed after the answer, which a short one awaits."""
        self.close_connection = True
        if length <= _MOST_UNVERIFIED:
            self.rfile.read(length)

    def _answer(self, status: int, body: dict[str, Any], headers: Mapping[str, str] = _NO_HEADERS) -> None:
        data = orjson.dumps(body)
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
