"""kafka-python's connection settings, derived from librdkafka's."""

import os
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any

from fencepost.config import ConfigError

TOKEN_PROVIDER = "sasl_oauth_token_provider"
"""The argument of kafka-python's clients that gives them tokens of OAUTHBEARER."""
_KERBEROS = "GSSAPI"  # the mechanism if none is set
_RENAMED = {
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}


def kafka_python_conf(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's arguments to connect as `conf` (librdkafka's names) does. Other settings are left out.

    Raises ConfigError for a key store that cannot be read.
    """
    result: dict[str, Any] = {new: conf[old] for old, new in _RENAMED.items() if conf.get(old) is not None}
    result["bootstrap_servers"] = [server.strip() for server in str(conf["bootstrap.servers"]).split(",")]
    for name in ("security_protocol", "sasl_mechanism"):
        if name in result:
            result[name] = str(result[name]).upper()
    protocol = str(result.get("security_protocol", ""))
    if protocol.startswith("SASL") and result.setdefault("sasl_mechanism", _KERBEROS) == _KERBEROS:
        result.setdefault("sasl_kerberos_service_name", "kafka")
    if protocol.endswith("SSL"):
        result["ssl_context"] = ssl_context(conf)
    if result.get("sasl_mechanism") == "OAUTHBEARER" and conf.get("sasl.oauthbearer.token.endpoint.url"):
        from fencepost.kafka.wire.oauth_tokens import (
            token_provider,  # kafka-python and an HTTP client, for those who use it
        )

        result[TOKEN_PROVIDER] = token_provider(conf)
    return result


def ssl_context(conf: Mapping[str, Any]) -> ssl.SSLContext:
    """Return librdkafka's TLS settings as Python's. Raises ConfigError for a key store that cannot be read."""
    context = ssl.create_default_context(cafile=conf.get("ssl.ca.location"), cadata=conf.get("ssl.ca.pem"))
    if str(conf.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        context.check_hostname = False
    password = conf.get("ssl.key.password")
    if "ssl.certificate.location" in conf:
        key = conf.get("ssl.key.location")
        context.load_cert_chain(conf["ssl.certificate.location"], key, password)
    elif "ssl.keystore.location" in conf:  # one in PEM has become ssl.certificate.location
        _load_pem(context, _pem_of(str(conf["ssl.keystore.location"]), conf.get("ssl.keystore.password")), None)
    elif "ssl.certificate.pem" in conf:
        _load_pem(context, f"{conf['ssl.certificate.pem']}\n{conf.get('ssl.key.pem', '')}", password)
    return context


def _pem_of(path: str, password: str | None) -> str:
    """Return the key and the certificates of a key store in PKCS12 as PEM, which is what Python's TLS reads."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

    with open(path, "rb") as store:
        data = store.read()
    try:
        key, certificate, others = load_key_and_certificates(data, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError(f"ssl.keystore.location: {path} cannot be read as PKCS12: {error}") from None
    if key is None or certificate is None:
        raise ConfigError(f"ssl.keystore.location: {path} has no key with a certificate")
    chain = [each.public_bytes(Encoding.PEM) for each in (certificate, *others)]
    return b"".join([*chain, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]).decode()


def _load_pem(context: ssl.SSLContext, pem: str, password: str | None) -> None:
    """Load a client certificate. Python reads it only from a file, so this uses a private, short-lived one (E11)."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as out:
            out.write(pem)
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)
