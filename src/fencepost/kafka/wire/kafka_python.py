"""kafka-python's connection settings, derived from librdkafka's."""

import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from fencepost.config import ConfigError
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError

_QUOTA_LOOK_S, _GRACE_S = 0.05, 1.0
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


def kafka_python_admin(conf: Mapping[str, Any], timeout_s: float) -> Any:
    """Connect an admin client. `timeout_s` applies to connecting and to answers. Raises the errors of `kafka`.

    The client keeps retrying, even if a broker refuses it; from the second try on it uses a new token.
    """
    from kafka import KafkaAdminClient  # from the package: threads that import its parts would see half-loaded modules
    from kafka.net.compat import KafkaNetClient

    made: list[Any] = []
    arguments = kafka_python_conf(conf)
    if TOKEN_PROVIDER in arguments:
        arguments[TOKEN_PROVIDER] = arguments[TOKEN_PROVIDER].for_one_client()

    def connect(**settings: Any) -> Any:
        made.append(KafkaNetClient(**settings))
        return made[0]

    timeout_ms = int(timeout_s * 1000)
    timeouts = {"request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": timeout_ms}
    try:
        client = KafkaAdminClient(**arguments, **timeouts, kafka_client=connect)
    except BaseException:
        for each in made:
            each.close()  # the library leaves its thread and its sockets behind
        raise
    _bound_requests(client, timeout_s)
    return client


def _bound_requests(client: Any, timeout_s: float) -> None:
    """Make each request of a client wait for a broker's quota, and then no longer than the time-out.

    The client itself refuses to send while it is throttled, and a new connection would be throttled again. Also, it has
    no time-out for a request that waits for a connection.
    """
    from kafka.errors import NodeNotReadyError

    manager, net = client._manager, client._manager._net
    send = manager.send

    async def bounded_send(request: Any, node_id: Any = None, request_timeout_ms: Any = None) -> Any:
        while True:
            try:
                future = send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)
                _end_by(net, time.monotonic() + timeout_s + _GRACE_S, future)
                return await future
            except NodeNotReadyError:
                throttled = [each for each in manager._conns.values() if "throttle" in each.paused]
                if not throttled:
                    raise
            await net.sleep(_QUOTA_LOOK_S)
            for connection in throttled:
                connection._maybe_unthrottle()  # its own timer may be early, and comes once

    manager.send = bounded_send


def _end_by(net: Any, deadline_s: float, future: Any) -> None:
    from kafka.errors import KafkaTimeoutError

    def fail() -> None:
        if not future.is_done:
            future.failure(KafkaTimeoutError())

    if not future.is_done:
        net.call_at(deadline_s, fail)


def group_failure(error: Exception, doing: str, conf: Mapping[str, Any]) -> Exception:
    """Convert an error of kafka-python or of a socket, raised while `doing` something with a group."""
    from kafka.errors import GroupAuthorizationFailedError, KafkaError, TopicAuthorizationFailedError

    if isinstance(error, GroupAuthorizationFailedError | TopicAuthorizationFailedError):
        return KafkaAuthorizationError(f"Not authorized while {doing}: {error}")
    if isinstance(error, KafkaError) and not getattr(error, "retriable", False):
        return KafkaRequestError(f"Failed {doing}: {error!r}", getattr(error, "errno", None) or -1)
    servers = conf.get("bootstrap.servers")
    return KafkaUnavailableError(f"Kafka did not answer while {doing} (bootstrap.servers={servers}): {error!r}")


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
