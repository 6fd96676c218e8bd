import ssl

import pytest

from fencepost.config import ConfigError
from fencepost.kafka.wire.kafka_python import kafka_python_conf


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


def test_pkcs12_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        kafka_python_conf({"bootstrap.servers": "a:1", "security.protocol": "ssl", "ssl.keystore.location": "k.p12"})
