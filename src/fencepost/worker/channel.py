"""The worker's end of the channel to its slots and splits: signed JSON over HTTP, on loopback or with TLS."""

import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from fencepost.task.signature import SignatureError, Verifier

log = logging.getLogger(__name__)

Handler = Callable[[dict[str, Any]], dict[str, Any]]


class RefusedError(Exception):
    """The worker's no: this slot, task or run is not, or no longer, known."""


@dataclass(frozen=True)
class ChannelTls:
    """Files of the channel's certificate and key (PEM)."""

    certificate: str
    key: str


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # all tasks of a slot start at the same moment

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell of an executor that was killed in the middle of a request in a line, not with a stack."""
        log.debug("channel: the connection from %s broke", client_address, exc_info=True)


class ChannelServer:
    """Serves `handlers` by path. A request with a wrong signature is answered 403 and nothing else happens."""

    def __init__(
        self, secret: bytes, handlers: dict[str, Handler], *, host: str = "127.0.0.1", tls: ChannelTls | None = None
    ) -> None:
        verifier = Verifier(secret)

        class Request(_Request):
            routes = handlers
            signatures = verifier

        self._server = _Server((host, 0), Request)
        self._scheme = "http"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._host = host
        self._thread = threading.Thread(target=self._server.serve_forever, name="channel", daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self._host}:{self._server.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.ident is not None:
            self._server.shutdown()  # waits for the thread that serves
        self._server.server_close()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 120
    routes: dict[str, Handler]
    signatures: Verifier

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self.signatures.verify("POST", self.path, body, self.headers)  # type: ignore[arg-type]
            handler = self.routes.get(self.path)
            if handler is None:
                raise RefusedError("no such path")
            self._answer(200, handler(orjson.loads(body)))
        except SignatureError as error:
            self._answer(403, {"message": str(error)})
        except RefusedError as error:
            self._answer(409, {"message": str(error)})
        except ConnectionError as error:
            log.debug("channel: %s", error)
        except Exception as error:
            log.exception("channel: %s failed", self.path)
            self._answer(500, {"message": repr(error)})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = orjson.dumps(body)
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
