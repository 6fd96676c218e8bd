"""An HTTP server that issues unsigned OAuth 2.0 tokens for client credentials."""

import base64
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def token(client_id: str, life_s: float = 3600.0) -> str:
    """Return a JSON web token without a signature; a broker accepts it unless it is configured otherwise."""
    now_s = time.time()
    parts = ({"alg": "none", "typ": "JWT"}, {"sub": client_id, "iat": int(now_s), "exp": int(now_s + life_s)})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return f"{'.'.join(encoded)}."


class TokenServer:
    """Gives tokens to clients that know their secret; a context manager. `forms` are what was asked with."""

    def __init__(self, clients: Mapping[str, str]) -> None:
        self.clients = dict(clients)
        self.life_s = 3600.0
        self.status = 200
        self.says_life = True
        self.ends_s: float | None = None  # as the token says it, from now on, where that is not what the server says
        self.forms: list[dict[str, str]] = []
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                status, said = server._answer(self.headers, self.rfile.read(int(self.headers["Content-Length"])))
                data = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), name="tokens", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def login(self, client_id: str, secret: str | None = None) -> dict[str, str]:
        """Return the settings, by their Java names, of a client that asks here."""
        known = self.clients[client_id] if secret is None else secret
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.jaas.config": f'{LOGIN_MODULE} required clientId="{client_id}" clientSecret="{known}" scope="kafka";',
        }

    def _answer(self, headers: Any, body: bytes) -> tuple[int, dict[str, object]]:
        client_id, _, secret = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
        self.asked.append(client_id)
        self.forms.append({key: values[0] for key, values in parse_qs(body.decode()).items()})
        if self.status != 200:
            return self.status, {}
        if self.clients.get(client_id) != secret:
            return 401, {"error": "invalid_client"}
        ends_s = self.life_s if self.ends_s is None else self.ends_s
        life = {"expires_in": self.life_s} if self.says_life else {}
        return 200, {"access_token": token(client_id, ends_s), "token_type": "Bearer", **life}
