"""A registry that answers as a test says: for what a real one, or a proxy before it, does only seldom."""

import base64
import ssl
from pathlib import Path
from typing import Any

from support.http_answers import Answer, Asked, HttpAnswers


class ScriptedRegistry(HttpAnswers):
    """Answers each request with `status` and `body` (text, or JSON)."""

    def __init__(self, tls: Path | None = None) -> None:
        """`tls` is a directory with `certificate.pem` and `key.pem`, for https."""
        self.status = 200
        self.body: Any = {}
        self.by_path: dict[str, tuple[int, Any]] = {}
        """Answers of their own for paths that begin so."""
        context = None
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "certificate.pem", tls / "key.pem")
        super().__init__(self._scripted, context)

    @property
    def authorizations(self) -> list[str]:
        return [each.headers.get("authorization", "") for each in self.asked]

    @property
    def users(self) -> list[str]:
        """Return user and password of each request that had them."""
        return [base64.b64decode(each[6:]).decode() for each in self.authorizations if each.startswith("Basic ")]

    def _scripted(self, asked: Asked) -> Answer:
        for start, (status, body) in self.by_path.items():
            if asked.path.startswith(start):
                return Answer(body, status)
        return Answer(self.body, self.status)
