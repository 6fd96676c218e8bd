"""An HTTP server that answers as a test says: for what a real registry, or a proxy before it, does only seldom."""

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class ScriptedRegistry:
    """A context manager. Answers each request with `status` and `body` (text, or JSON), and keeps what was asked."""

    def __init__(self, tls: Path | None = None) -> None:
        """`tls` is a directory with `certificate.pem` and `key.pem`, for https."""
        self.status = 200
        self.body: Any = {}
        self.by_path: dict[str, tuple[int, Any]] = {}
        """Answers of their own for paths that begin so."""
        self.requests: list[tuple[str, str]] = []
        self.authorizations: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "certificate.pem", tls / "key.pem")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> "ScriptedRegistry":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    @property
    def users(self) -> list[str]:
        """Return user and password of each request that had them."""
        return [base64.b64decode(each[6:]).decode() for each in self.authorizations if each.startswith("Basic ")]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                scripted.requests.append((self.command, self.path))
                scripted.authorizations.append(self.headers.get("Authorization") or "")
                status, body = scripted._answer_to(self.path)
                data = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = _answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler

    def _answer_to(self, path: str) -> tuple[int, Any]:
        for start, answer in self.by_path.items():
            if path.startswith(start):
                return answer
        return self.status, self.body
