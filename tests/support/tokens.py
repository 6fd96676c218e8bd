"""An HTTP server that issues unsigned OAuth 2.0 tokens for client credentials."""

import base64
import json
import time
from collections.abc import Mapping
from typing import Self
from urllib.parse import parse_qs

from support.http_answers import Answer, Asked, HttpAnswers

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
        self._server = HttpAnswers(self._answer)
        self.url = f"{self._server.url}/token"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def login(self, client_id: str, secret: str | None = None) -> dict[str, str]:
        """Return the settings, by their Java names, of a client that asks here."""
        known = self.clients[client_id] if secret is None else secret
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.jaas.config": f'{LOGIN_MODULE} required clientId="{client_id}" clientSecret="{known}" scope="kafka";',
        }

    def _answer(self, asked: Asked) -> Answer:
        encoded = asked.headers["authorization"].removeprefix("Basic ")
        client_id, _, secret = base64.b64decode(encoded).decode().partition(":")
        self.asked.append(client_id)
        self.forms.append({key: values[0] for key, values in parse_qs(asked.body).items()})
        if self.status != 200:
            return Answer({}, self.status)
        if self.clients.get(client_id) != secret:
            return Answer({"error": "invalid_client"}, 401)
        ends_s = self.life_s if self.ends_s is None else self.ends_s
        life = {"expires_in": self.life_s} if self.says_life else {}
        return Answer({"access_token": token(client_id, ends_s), "token_type": "Bearer", **life})
