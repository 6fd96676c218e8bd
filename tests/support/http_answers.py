"""An HTTP server that answers as a test says: stands in for services that cannot run here."""

import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Asked:
    """A request: its path with the query, its headers in lower case, and its body."""

    method: str
    path: str
    headers: dict[str, str]
    body: str


@dataclass(frozen=True)
class Answer:
    """An answer, whose body is a text, or becomes JSON."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class HttpAnswers:
    """Answers each request by a function, on a port of its own; with TLS if given a context. A context manager."""

    def __init__(self, answer: Callable[[Asked], Answer], tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                headers = {key.lower(): value for key, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, self.rfile.read(size).decode())
                outer.asked.append(asked)
                found = outer.answer(asked)
                body = (found.body if isinstance(found.body, str) else json.dumps(found.body)).encode()
                self.send_response(found.status)
                for key, value in {"content-type": "application/json", **found.headers}.items():
                    self.send_header(key, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_LIST = handle_any  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler
