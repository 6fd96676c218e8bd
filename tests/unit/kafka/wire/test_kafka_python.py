import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from fencepost.config import ConfigError
from fencepost.kafka.wire.access import kafka_python_conf


def test_brokers_and_credentials_are_passed_on():
    assert kafka_python_conf(
        {
            "bootstrap.servers": "a:1, b:2",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": "u",
            "sasl.password": "p",
            "queue.buffering.max.ms": 5,
        }
    ) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }


def test_tls_verifies_by_default():
    context = kafka_python_conf({"bootstrap.servers": "a:1", "security.protocol": "ssl"})["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    lax = {"bootstrap.servers": "a:1", "security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}
    assert not kafka_python_conf(lax)["ssl_context"].check_hostname


def _key_store(path: Path, password: bytes) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    certificate = made.sign(key, hashes.SHA256())
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, BestAvailableEncryption(password))
    )
    return path


def _of_key_store(path: Path, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": "a:1",
        "security.protocol": "ssl",
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": password,
    }


def test_a_key_store_in_pkcs12_is_read(tmp_path: Path):
    store = _key_store(tmp_path / "k.p12", b"secret")
    assert kafka_python_conf(_of_key_store(store, "secret"))["ssl_context"]


def test_a_key_store_that_cannot_be_read_is_refused_by_name(tmp_path: Path):
    store = _key_store(tmp_path / "k.p12", b"secret")
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location") as refused:
        kafka_python_conf(_of_key_store(store, "wrong"))
    assert "wrong" not in str(refused.value)


def test_kerberos_is_the_default_sasl_mechanism():
    found = kafka_python_conf({"bootstrap.servers": "a:1", "security.protocol": "sasl_plaintext"})
    assert (found["sasl_mechanism"], found["sasl_kerberos_service_name"]) == ("GSSAPI", "kafka")
