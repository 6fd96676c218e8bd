"""kafka-python's connection settings, derived from librdkafka's."""

import os
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any

from fencepost.config import ConfigError

TOKEN_PROVIDER = "sasl_oauth_token_provider"
"""The argument of kafka-python's clients that gives them tokens of OAUTHBEARER."""
_RENAMED = {
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


def kafka_python_conf(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's arguments to connect as `conf` (librdkafka's names) does. Other settings are left out.

    Raises ConfigError for a key store in PKCS12: Python's TLS reads PEM only.
    """
    result: dict[str, Any] = {new: conf[old] for old, new in _RENAMED.items() if conf.get(old) is not None}
    result["bootstrap_servers"] = [server.strip() for server in str(conf["bootstrap.servers"]).split(",")]
    for name in ("security_protocol", "sasl_mechanism"):
        if name in result:
            result[name] = str(result[name]).upper()
    if str(result.get("security_protocol", "")).endswith("SSL"):
        result["ssl_context"] = ssl_context(conf)
    if result.get("sasl_mechanism") == "OAUTHBEARER" and conf.get("sasl.oauthbearer.token.endpoint.url"):
        from fencepost.kafka.wire.oauth_tokens import (
            token_provider,  # kafka-python and an HTTP client, for those who use it
        )

        result[TOKEN_PROVIDER] = token_provider(conf)
    return result


def ssl_context(conf: Mapping[str, Any]) -> ssl.SSLContext:
    """Return librdkafka's TLS settings as Python's. Raises ConfigError for a key store in PKCS12."""
    if "ssl.keystore.location" in conf:  # a key store in PEM has become ssl.certificate.location
        raise ConfigError(
            "ssl.keystore.location: requests about groups and transactions cannot use a PKCS12 key store; "
            "convert it to PEM and set ssl.keystore.type=PEM"
        )
    context = ssl.create_default_context(cafile=conf.get("ssl.ca.location"), cadata=conf.get("ssl.ca.pem"))
    if str(conf.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        context.check_hostname = False
    password = conf.get("ssl.key.password")
    if "ssl.certificate.location" in conf:
        key = conf.get("ssl.key.location")
        context.load_cert_chain(conf["ssl.certificate.location"], key, password)
    elif "ssl.certificate.pem" in conf:
        _load_pem(context, f"{conf['ssl.certificate.pem']}\n{conf.get('ssl.key.pem', '')}", password)
    return context


def _load_pem(context: ssl.SSLContext, pem: str, password: str | None) -> None:
    """Load a client certificate. Python reads it only from a file, so this uses a private, short-lived one (E11)."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as out:
            out.write(pem)
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)
