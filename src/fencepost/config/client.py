"""How a worker reaches Kafka: the settings that all of its clients share, under Kafka's own (Java) names.

Python's TLS takes keys and certificates only as PEM.
"""

import os
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any

from fencepost.config.check import at_least, non_empty, one_of
from fencepost.config.reference import names_in
from fencepost.config.setting import HIGH, LOW, Config, Secret, Type, setting
from fencepost.guide import guide


def load_pem(context: ssl.SSLContext, pem: bytes, password: str | None) -> None:
    """Load a certificate and its key. Raises ssl.SSLError.

    Python reads them only from a file, so this uses a private one that lives for this call (E11). With the password "",
    OpenSSL does not ask the terminal for that of an encrypted key.
    """
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(pem)
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)


def pem_of_key_store(data: bytes, password: str | None) -> bytes | None:
    """Return the key and the certificates of a key store in PKCS12; None if it has no key with a certificate.

    Raises ValueError if it cannot be read, or the password is wrong.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

    key, certificate, others = load_key_and_certificates(data, None if password is None else password.encode())
    if key is None or certificate is None:
        return None
    chain = [each.public_bytes(Encoding.PEM) for each in (certificate, *others)]
    return b"".join([*chain, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())])


class ConnectionConfig(Config):
    """Addresses, timeouts and buffers."""

    bootstrap_servers: list[str] = setting(
        "bootstrap.servers",
        default=["localhost:9092"],
        check=non_empty(),
        importance=HIGH,
        doc="Host and port of some brokers, separated by commas; the others are found through them.",
    )
    client_dns_lookup: str = setting(
        "client.dns.lookup",
        default="use_all_dns_ips",
        check=one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only", ignore_case=False),
        doc="How host names are turned into addresses.",
    )
    client_id: str = setting(
        "client.id", default="", importance=LOW, doc="The name by which brokers log the requests of this worker."
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms",
        type=Type.INT,
        default=40_000,
        check=at_least(0),
        doc="How long the answer to a request is waited for.",
    )
    retry_backoff_ms: int = setting(
        "retry.backoff.ms",
        default=100,
        check=at_least(0),
        importance=LOW,
        type=Type.LONG,
        doc="First pause before a request is repeated.",
    )
    retry_backoff_max_ms: int = setting(
        "retry.backoff.max.ms",
        default=1_000,
        check=at_least(0),
        importance=LOW,
        type=Type.LONG,
        doc="Longest pause before a request is repeated.",
    )
    reconnect_backoff_ms: int = setting(
        "reconnect.backoff.ms",
        default=50,
        check=at_least(0),
        importance=LOW,
        type=Type.LONG,
        doc="First pause before a broker is connected to again.",
    )
    reconnect_backoff_max_ms: int = setting(
        "reconnect.backoff.max.ms",
        default=1_000,
        check=at_least(0),
        importance=LOW,
        type=Type.LONG,
        doc="Longest pause before a broker is connected to again.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms", default=540_000, type=Type.LONG, doc="An idle connection is closed after this time."
    )
    metadata_max_age_ms: int = setting(
        "metadata.max.age.ms",
        default=300_000,
        check=at_least(0),
        importance=LOW,
        type=Type.LONG,
        doc="Topics and leaders are looked up again after this time.",
    )
    metadata_recovery_strategy: str = setting(
        "metadata.recovery.strategy",
        default="none",
        check=one_of("none", "rebootstrap"),
        importance=LOW,
        doc="What a client does when no broker that it knows can be reached.",
    )
    send_buffer_bytes: int = setting(
        "send.buffer.bytes",
        type=Type.INT,
        default=131_072,
        check=at_least(-1),
        doc="TCP send buffer; -1: the system's.",
    )
    receive_buffer_bytes: int = setting(
        "receive.buffer.bytes",
        type=Type.INT,
        default=32_768,
        check=at_least(-1),
        doc="TCP receive buffer; -1: the system's.",
    )
    socket_connection_setup_timeout_ms: int = setting(
        "socket.connection.setup.timeout.ms",
        default=10_000,
        check=at_least(0),
        importance=LOW,
        type=Type.LONG,
        doc="How long a connection may take to be made.",
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        "socket.connection.setup.timeout.max.ms",
        default=30_000,
        check=at_least(0),
        importance=LOW,
        type=Type.LONG,
        doc="The longest that the former grows to.",
        without_effect="it has no counterpart in our client library",
    )


class SecurityConfig(Config):
    """TLS and SASL for connections to brokers. Other settings that begin with `ssl.` and `sasl.` are passed on, too."""

    security_protocol: str = setting(
        "security.protocol",
        default="PLAINTEXT",
        check=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=False),
        doc="Whether connections are encrypted and authenticated.",
    )
    sasl_mechanism: str | None = setting(
        "sasl.mechanism",
        default=None,
        doc="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. The client library that comes along lacks "
        f"Kerberos, GSSAPI ({guide('how-to/secure-clients#kerberos')}).",
    )
    sasl_jaas_config: Secret | None = setting(
        "sasl.jaas.config",
        default=None,
        doc="Login module, as Kafka's Java clients take it: with user name and password, or client id and secret.",
    )
    ssl_truststore_type: str = setting(
        "ssl.truststore.type", default="JKS", doc="PEM is what our client library reads."
    )
    ssl_truststore_location: str | None = setting(
        "ssl.truststore.location", default=None, importance=HIGH, doc="File with the trusted certificates."
    )
    ssl_truststore_password: Secret | None = setting(
        "ssl.truststore.password", default=None, importance=HIGH, doc="Not needed with PEM."
    )
    ssl_truststore_certificates: Secret | None = setting(
        "ssl.truststore.certificates", default=None, importance=HIGH, doc="The trusted certificates themselves, as PEM."
    )
    ssl_keystore_type: str = setting(
        "ssl.keystore.type", default="JKS", doc="PEM or PKCS12 are what our client library reads."
    )
    ssl_keystore_location: str | None = setting(
        "ssl.keystore.location", default=None, importance=HIGH, doc="File with our certificate and key."
    )
    ssl_keystore_password: Secret | None = setting(
        "ssl.keystore.password", default=None, importance=HIGH, doc="Opens a PKCS12 file."
    )
    ssl_keystore_key: Secret | None = setting(
        "ssl.keystore.key", default=None, importance=HIGH, doc="Our private key itself, as PEM."
    )
    ssl_keystore_certificate_chain: Secret | None = setting(
        "ssl.keystore.certificate.chain", default=None, importance=HIGH, doc="Our certificate chain itself, as PEM."
    )
    ssl_key_password: Secret | None = setting(
        "ssl.key.password", default=None, importance=HIGH, doc="Opens the private key."
    )
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm",
        default="https",
        importance=LOW,
        doc="https: the broker's certificate must bear its host name. Empty switches the check off.",
    )


_SERVERS = ConnectionConfig.key_of("bootstrap_servers")
PROTOCOL = SecurityConfig.key_of("security_protocol")
_PLAINTEXT, _SASL_IN_CLEAR = "PLAINTEXT", "SASL_PLAINTEXT"
_CREDENTIALS = ("sasl.", "ssl.keystore.", "ssl.key.")


def is_elsewhere(shared: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Say whether a connector's own settings of a client name brokers that are not among those of the shared ones."""
    servers = own.get(_SERVERS)
    return servers is not None and not _servers(servers) <= _servers(shared.get(_SERVERS, ""))


def is_weaker(shared: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Say whether own settings would send the shared credentials in clear, which shared ones send through TLS."""
    return _protocol(own) == _SASL_IN_CLEAR and _protocol(shared) not in (_PLAINTEXT, _SASL_IN_CLEAR, "")


def combined(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a connector's client: the shared ones of the workers' file, and its own, which win.

    Nothing that identifies the workers is among them if the client goes to other brokers, or would do so in clear.
    """
    if is_elsewhere(shared, own) or is_weaker(shared, own):
        shared = {key: value for key, value in shared.items() if not key.startswith(_CREDENTIALS)}
    return {**shared, **own}


def lacks_credentials(shared: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Say whether a client that goes elsewhere says nothing about its security, where the workers have credentials."""
    has_own = PROTOCOL in own or any(key.startswith(_CREDENTIALS) for key in own)
    return is_elsewhere(shared, own) and _protocol(shared) not in (_PLAINTEXT, "") and not has_own


def _servers(value: object) -> set[str]:
    return set(map(str, value)) if isinstance(value, list | tuple) else set(names_in(str(value)))


def _protocol(properties: Mapping[str, Any]) -> str:
    return str(properties.get(PROTOCOL) or "").strip().upper()
