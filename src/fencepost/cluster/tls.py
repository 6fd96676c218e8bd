"""TLS of workers: of the listeners of their REST API, and of requests to each other, from Kafka's `ssl.*` settings.

Key stores and trust stores are PEM or PKCS12, told apart by their content; a key store may also be a directory with a
certificate and its key, as Kubernetes mounts a Secret of the type `kubernetes.io/tls`. When a file changes, connections
that are made after that use the new certificates; if they cannot be used, the log says why, and those from before stay
in use.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fencepost.config.check import ConfigError
from fencepost.config.client import load_pem, pem_of_key_store
from fencepost.config.file import WatchedFiles
from fencepost.config.rest import LISTENERS_HTTPS, ListenerTlsConfig, RestConfig, tls_config
from fencepost.config.setting import Secret

_JAVA_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER, _PEM = b"\x30", b"-----BEGIN "
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_IN_DIRECTORY = ("tls.crt", "tls.key")
_KEYSTORE, _TRUSTSTORE = "ssl.keystore.location", "ssl.truststore.location"


class ReloadedContext(ssl.SSLContext):
    """Makes each connection with the context that `current` returns at that moment."""

    _current: Callable[[], ssl.SSLContext]

    @classmethod
    def of(cls, protocol: int, current: Callable[[], ssl.SSLContext]) -> "ReloadedContext":
        made = cls(protocol)
        made._current = current
        return made

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self._current().wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        return self._current().wrap_socket(*args, **kwargs)


def server_context(config: ListenerTlsConfig, prefix: str) -> ssl.SSLContext:
    """Return the context of a listener. Raises ConfigError; `prefix` is that of its keys."""
    return _reloaded(ssl.PROTOCOL_TLS_SERVER, config, lambda: _server(config), prefix)


def client_context(config: ListenerTlsConfig, prefix: str) -> ssl.SSLContext:
    """Return the context of requests to other workers, which shows them the same certificate. Raises ConfigError."""
    return _reloaded(ssl.PROTOCOL_TLS_CLIENT, config, lambda: _client(config), prefix)


def peer_context(config: RestConfig) -> ssl.SSLContext | None:
    """Return the context of this worker's requests to others. Raises ConfigError.

    None if the file has neither an https listener nor settings for one, which it may have before the listener: then
    it can talk to workers that have changed already.
    """
    has_settings = any(key.startswith(LISTENERS_HTTPS) for key in config.originals)
    if not has_settings and not any(one.is_tls for one in config.rest_listeners):
        return None
    return client_context(tls_config(config.originals, LISTENERS_HTTPS), LISTENERS_HTTPS)


def _reloaded(
    protocol: int, config: ListenerTlsConfig, make: Callable[[], ssl.SSLContext], prefix: str
) -> ssl.SSLContext:
    def made() -> ssl.SSLContext:
        try:
            return make()
        except ConfigError as error:
            raise ConfigError([f"{prefix}{text}" for text in error.messages]) from None

    own, trusted = config.ssl_keystore_location, config.ssl_truststore_location
    paths = [*(_files(own) if own else ()), *([trusted] if trusted else ())]
    watched = WatchedFiles(paths, made)
    return ReloadedContext.of(protocol, lambda: watched.content)


def _server(config: ListenerTlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, config)
    if not _load_own(context, config):
        raise ConfigError(f"{_KEYSTORE}: an https listener needs a key and a certificate; name a file in PEM or PKCS12")
    if config.asks_for_certificates:
        if not _load_trusted(context, config):
            raise ConfigError(
                f"{_TRUSTSTORE}: the certificates of callers need authorities; name a file in PEM or PKCS12"
            )
        context.verify_mode = ssl.CERT_REQUIRED if config.requires_certificates else ssl.CERT_OPTIONAL
    return context


def _client(config: ListenerTlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit(context, config)
    context.check_hostname = bool(config.ssl_endpoint_identification_algorithm.strip())
    _load_own(context, config)
    if not _load_trusted(context, config):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _limit(context: ssl.SSLContext, config: ListenerTlsConfig) -> None:
    versions = sorted(_VERSIONS[name] for name in config.enabled_protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _load_own(context: ssl.SSLContext, config: ListenerTlsConfig) -> bool:
    location, key_password = config.ssl_keystore_location, _text(config.ssl_key_password)
    store_password = _text(config.ssl_keystore_password)
    if location:
        data = b"\n".join(_read(path, _KEYSTORE) for path in _files(location))
        if data.startswith(_DER):
            _load_pem(context, _pem_of_store(data, store_password, location), "", location)
        else:
            _load_pem(context, data, key_password or store_password or "", location)
        return True
    chain, key = _text(config.ssl_keystore_certificate_chain), _text(config.ssl_keystore_key)
    if not chain or not key:
        return False
    _load_pem(context, f"{chain}\n{key}\n".encode(), key_password or "", "ssl.keystore.key")
    return True


def _files(key_store: str) -> list[str]:
    path = Path(key_store)
    return [str(path / name) for name in _IN_DIRECTORY] if path.is_dir() else [key_store]


def _load_pem(context: ssl.SSLContext, pem: bytes, password: str, name: str) -> None:
    try:
        load_pem(context, pem, password)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{_KEYSTORE}: {name} has no certificate with its key, or its password is wrong ({error.reason or error})"
        ) from None


def _pem_of_store(data: bytes, password: str | None, name: str) -> bytes:
    try:
        pem = pem_of_key_store(data, password)
    except ValueError:
        raise ConfigError(f"{_KEYSTORE}: {name} cannot be read as PKCS12, or ssl.keystore.password is wrong") from None
    if pem is None:
        raise ConfigError(f"{_KEYSTORE}: {name} has no key with a certificate")
    return pem


def _load_trusted(context: ssl.SSLContext, config: ListenerTlsConfig) -> bool:
    location, inline = config.ssl_truststore_location, _text(config.ssl_truststore_certificates)
    if location:
        data = _read(location, _TRUSTSTORE)
        password = _text(config.ssl_truststore_password)
        is_store = data.startswith(_DER)
        pem = _pem_of_authorities(data, password, location) if is_store else data.decode(errors="replace")
    elif inline:
        pem = inline
    else:
        return False
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        name = location or "the PEM"
        raise ConfigError(f"{_TRUSTSTORE}: {name} has no certificates that can be read: {error}") from None
    return True


def _pem_of_authorities(data: bytes, password: str | None, name: str) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        store = load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise ConfigError(
            f"{_TRUSTSTORE}: {name} cannot be read as PKCS12, or ssl.truststore.password is wrong"
        ) from None
    found = [*store.additional_certs, *([store.cert] if store.cert is not None else [])]
    return "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in found)


def _read(path: str, key: str) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}: {path} cannot be read: {error.strerror}") from None
    if data.startswith(_JAVA_MAGIC):
        raise ConfigError(
            f"{key}: {path} is a JKS file, which only Java reads; convert it with `keytool -importkeystore "
            f"-srckeystore {path} -destkeystore {Path(path).stem}.p12 -deststoretype PKCS12`, and name the new file"
        )
    if not data.startswith(_DER) and _PEM not in data:
        raise ConfigError(f"{key}: {path} is neither PEM nor PKCS12")
    return data


def _text(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()
