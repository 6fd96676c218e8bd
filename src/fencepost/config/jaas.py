"""`sasl.jaas.config` in the format of Kafka's Java clients: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="it's \\"secret\\"";

Our client libraries have separate settings for a module's options, so only these modules are supported: PLAIN and
SCRAM, with user name and password, and OAUTHBEARER, with the credentials to request a token (KIP-768). No error shows
any part of the value (E11).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.config.check import ConfigError
from fencepost.config.file import read_text
from fencepost.config.setting import Secret
from fencepost.guide import guide

_TOKEN = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([=;])|([^\s=;"']+))""", re.DOTALL)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_MECHANISMS = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_EXTENSION = "extension_"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class Credentials:
    """A user name and password, and the SASL mechanisms that can use them."""

    username: str
    password: Secret
    mechanisms: tuple[str, ...]


@dataclass(frozen=True)
class ClientCredentials:
    """The credentials to request a token: an id and its secret (OAuth 2.0's client credentials, RFC 6749, 4.4).

    `extensions` are sent to the broker with the token (KIP-342).
    """

    client_id: str
    client_secret: Secret
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)

    mechanisms = ("OAUTHBEARER",)


def parse_jaas(text: str) -> Credentials | ClientCredentials:
    """Parse a value. Raises ConfigError with the reason only; the caller names the key."""
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[1].lower() not in _FLAGS:
        raise ConfigError('write it like `<login module> required username="..." password="...";`')
    module = tokens[0]
    if module == _KERBEROS:
        raise ConfigError(
            "Kerberos' login module cannot be translated for our client library; use SCRAM, OAUTHBEARER or PLAIN, or "
            "TLS with a client certificate: brokers can take one of them beside Kerberos "
            f"({guide('how-to/secure-clients#kerberos')})"
        )
    if module not in (*_MECHANISMS, _OAUTH):
        known = ", ".join((*_MECHANISMS, _OAUTH))
        raise ConfigError(f"only these login modules can be translated for our client library: {known}")
    options = _options(tokens[2:])
    if module == _OAUTH:
        return _client_credentials(options)
    _ensure_there(options, "username", "password")
    return Credentials(options["username"], Secret(options["password"]), _MECHANISMS[module])


def _client_credentials(options: Mapping[str, str]) -> ClientCredentials:
    _ensure_there(options, "clientId", "clientSecret")
    extensions = {key.removeprefix(_EXTENSION): text for key, text in options.items() if key.startswith(_EXTENSION)}
    return ClientCredentials(options["clientId"], Secret(options["clientSecret"]), options.get("scope"), extensions)


def _ensure_there(options: Mapping[str, str], *names: str) -> None:
    missing = [name for name in names if name not in options]
    if missing:
        raise ConfigError(f"the login module has no {' and no '.join(missing)}")


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigError("a quote is not closed")
        double, single, mark, word = match.groups()
        quoted = double if double is not None else single
        tokens.append(_unescaped(quoted) if quoted is not None else mark or word)
        position = match.end()
    return tokens


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


def _options(tokens: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    while tokens and tokens[0] != ";":
        if len(tokens) < 3 or tokens[1] != "=":
            raise ConfigError("the options of the login module are not of the form name=value")
        options[tokens[0]] = tokens[2]
        tokens = tokens[3:]
    if tokens != [";"]:
        raise ConfigError("it must hold one login module and end with a semicolon")
    return options


def login_options(path: str, entry: str, module: str) -> dict[str, str]:
    """Return the options of the login module in an entry of a JAAS file. Raises ConfigError if it has another one."""
    text = re.sub(r"/\*.*?\*/|(?m:^\s*//[^\n]*$)", "", read_text(path), flags=re.DOTALL)
    found = re.search(rf"\b{re.escape(entry)}\s*\{{(.*?)\}}\s*;", text, re.DOTALL)
    if found is None:
        raise ConfigError(f"{path}: it has no entry {entry} {{ ... }};")
    try:
        tokens = _tokens(found[1])
        if len(tokens) < 2 or tokens[0] != module or tokens[1].lower() not in _FLAGS:
            raise ConfigError(f'{entry} must be `{module} required file="...";`, no other login module is known')
        return _options(tokens[2:])
    except ConfigError as error:
        raise ConfigError([f"{path}: {reason}" for reason in error.messages]) from None
