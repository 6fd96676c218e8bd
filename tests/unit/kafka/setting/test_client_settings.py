import subprocess
import sys

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from fencepost.config import ConfigError, Secret
from fencepost.kafka.codec import compress
from fencepost.kafka.setting import translation
from fencepost.kafka.setting.batch_settings import COMPRESSIONS, lacking, lacking_to_read
from fencepost.kafka.setting.client_settings import (
    admin_conf,
    begins_at,
    member_conf,
    plan_conf,
    producer_conf,
    reader_conf,
    sink_conf,
    transactional_conf,
)
from fencepost.kafka.setting.table import CLIENT, GUARDED, NO_COUNTERPART, RULES, ClientKind, why_no_kerberos
from fencepost.kafka.setting.translation import Conf, SettingsError, translate

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="s3cret";'
OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="alice" clientSecret="s3cret" scope="kafka";'
)
TOKENS = {"sasl.oauthbearer.token.endpoint.url": "http://localhost:1/token"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username='bob' password='s3cret';"
BROKER = {"bootstrap.servers": "127.0.0.1:1"}

# A legal value for every setting of the table whose value is not a number.
TEXTS = {
    "bootstrap.servers": "127.0.0.1:1",
    "client.dns.lookup": "use_all_dns_ips",
    "enable.metrics.push": "false",
    "metadata.recovery.strategy": "REBOOTSTRAP",
    "security.protocol": "PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "compression.type": "lz4",
    "auto.offset.reset": "none",
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "group.protocol": "CLASSIC",
    "check.crcs": "true",
    "allow.auto.create.topics": "false",
    "broker.address.family": "v4",
    "socket.keepalive.enable": "true",
    "socket.nagle.disable": "true",
    "client.id": "c",
    "client.rack": "r",
    "group.instance.id": "i",
}
# Need files, certificates or a whole handshake of other settings; covered by tests of their own or by the library.
UNTRIED = ("ssl.", "sasl.oauthbearer", "sasl.kerberos", "group.remote.assignor")


def open_client(kind: ClientKind, conf: Conf) -> None:
    """Construct a client of the real library: it refuses settings that it does not know."""
    quiet = {"log_level": "0"}
    if kind is ClientKind.PRODUCER:
        Producer(BROKER | conf | quiet)
    elif kind is ClientKind.CONSUMER:
        Consumer(BROKER | {"group.id": "g", "session.timeout.ms": "10000"} | conf | quiet).close()
    else:
        AdminClient(BROKER | conf | quiet)


@pytest.mark.parametrize("kind", list(ClientKind))
def test_every_translated_setting_is_known_to_librdkafka(kind):
    tried = {
        name: TEXTS.get(name, "12000")
        for name, rules in RULES.items()
        if any(kind in rule.kinds for rule in rules) and not name.startswith(UNTRIED)
    }
    for name, value in tried.items():
        translated = translate(kind, {name: value})
        assert translated.warnings == []
        open_client(kind, translated.conf)


@pytest.mark.parametrize("name", [n for n in RULES if n.startswith("ssl.")])
def test_passed_through_tls_names_are_known_to_the_library(name):
    with pytest.raises(Exception) as caught:
        Producer(BROKER | {"security.protocol": "ssl", name: "/nonexistent"})
    assert "No such configuration property" not in str(caught.value)


def test_kafka_settings_are_renamed_and_converted():
    translated = translate(
        ClientKind.PRODUCER,
        {"buffer.memory": "33554432", "max.request.size": "2000000", "retry.backoff.ms": "0", "send.buffer.bytes": -1},
    )
    assert translated.conf == {
        "queue.buffering.max.kbytes": "32768",
        "message.max.bytes": "2000000",
        "retry.backoff.ms": "1",
        "socket.send.buffer.bytes": "0",
    }
    consumer = translate(ClientKind.CONSUMER, {"fetch.max.wait.ms": "100", "auto.offset.reset": "none"})
    assert consumer.conf == {"fetch.wait.max.ms": "100", "auto.offset.reset": "error"}


def test_request_timeout_is_translated_for_each_kind_of_client():
    timeout = {"request.timeout.ms": "40000"}
    assert translate(ClientKind.PRODUCER, timeout).conf == timeout
    assert translate(ClientKind.ADMIN, timeout).conf == {"socket.timeout.ms": "40000"}


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        (ClientKind.PRODUCER, "transactional.id", "mine"),
        (ClientKind.PRODUCER, "enable.idempotence", "false"),
        (ClientKind.PRODUCER, "acks", "1"),
        (ClientKind.PRODUCER, "retries", "0"),
        (ClientKind.PRODUCER, "message.timeout.ms", "1"),
        (ClientKind.PRODUCER, "socket.timeout.ms", "1"),
        (ClientKind.PRODUCER, "log_level", "0"),
        (ClientKind.PRODUCER, "log.connection.close", "false"),
        (ClientKind.PRODUCER, "max.in.flight.requests.per.connection", "10"),
        (ClientKind.CONSUMER, "isolation.level", "read_uncommitted"),
        (ClientKind.CONSUMER, "group.id", "mine"),
        (ClientKind.CONSUMER, "enable.auto.commit", "true"),
    ],
)
def test_setting_that_would_break_a_guarantee_is_ignored_with_a_warning(kind, key, value):
    translated = translate(kind, {key: value})
    assert key not in translated.conf
    assert len(translated.warnings) == 1
    assert f"'{key}'" in translated.warnings[0]


def test_setting_that_agrees_with_the_guarantees_causes_no_warning():
    assert translate(ClientKind.PRODUCER, {"acks": "all", "enable.idempotence": "TRUE"}).warnings == []
    assert translate(ClientKind.CONSUMER, {"isolation.level": "read_committed"}).conf == {
        "isolation.level": "read_committed"
    }


def test_settings_without_counterpart_and_unknown_settings_cause_warnings():
    translated = translate(
        ClientKind.PRODUCER, {"max.block.ms": "1", "linger.mss": "1", "fetch.min.bytes": "1", "x.y": "1"}
    )
    assert translated.conf == {}
    assert translated.warnings == [
        "Ignoring the producer setting 'max.block.ms': it has no counterpart in our client library",
        "Ignoring the producer setting 'linger.mss': there is no such setting; did you mean linger.ms?",
        "Ignoring the producer setting 'fetch.min.bytes': it is not a setting of a producer",
        "Ignoring the producer setting 'x.y': there is no such setting",
    ]


def test_all_bad_setting_values_are_reported_by_key():
    with pytest.raises(SettingsError) as caught:
        translate(ClientKind.PRODUCER, {"linger.ms": "soon", "batch.size": "big", "acks": "all"})
    assert set(caught.value.by_key) == {"linger.ms", "batch.size"}


def test_jaas_of_plain_and_scram_becomes_user_name_and_password():
    plain = translate(ClientKind.ADMIN, {"sasl.jaas.config": Secret(PLAIN), "security.protocol": "SASL_PLAINTEXT"}).conf
    assert plain == {
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "s3cret",
        "security.protocol": "sasl_plaintext",
    }
    scram = translate(ClientKind.PRODUCER, {"sasl.jaas.config": SCRAM, "sasl.mechanism": "SCRAM-SHA-512"}).conf
    assert scram["sasl.mechanism"] == "SCRAM-SHA-512"
    open_client(ClientKind.ADMIN, plain)


def test_jaas_of_oauthbearer_becomes_client_credentials():
    conf = translate(ClientKind.PRODUCER, {"sasl.jaas.config": Secret(OAUTH), **TOKENS}).conf
    assert conf == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://localhost:1/token",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.oauthbearer.scope": "kafka",
    }
    by_itself = {"sasl.oauthbearer.scope": "other", "sasl.oauthbearer.client.credentials.client.id": "bob"}
    other = translate(ClientKind.ADMIN, {"sasl.jaas.config": OAUTH, **TOKENS, **by_itself}).conf
    assert (other["sasl.oauthbearer.client.id"], other["sasl.oauthbearer.scope"]) == ("bob", "other")
    assert not lacking({**conf, "transactional.id": "t"})


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({"sasl.jaas.config": OAUTH}, {"token.endpoint.url"}),
        (TOKENS, {"client.credentials.client.id", "client.credentials.client.secret"}),
    ],
)
def test_oauthbearer_without_required_settings_is_refused_by_name(given, keys):
    with pytest.raises(SettingsError, match=r"clientId and clientSecret in sasl\.jaas\.config") as caught:
        translate(ClientKind.CONSUMER, {"sasl.mechanism": "OAUTHBEARER", **given})
    assert set(caught.value.by_key) == {f"sasl.oauthbearer.{key}" for key in keys}
    assert "s3cret" not in str(caught.value)


def test_secret_is_not_printed_in_translated_settings():
    assert "s3cret" not in repr(translate(ClientKind.ADMIN, {"sasl.jaas.config": PLAIN}))


@pytest.mark.parametrize(
    ("jaas", "mechanism", "key"),
    [
        (SCRAM, None, "sasl.mechanism"),
        (PLAIN, "SCRAM-SHA-256", "sasl.mechanism"),
        (OAUTH, "PLAIN", "sasl.mechanism"),
        (OAUTH.replace('clientSecret="s3cret"', ""), "OAUTHBEARER", "sasl.jaas.config"),
        (PLAIN.rstrip(";"), "PLAIN", "sasl.jaas.config"),
        (PLAIN.replace('password="s3cret"', ""), "PLAIN", "sasl.jaas.config"),
        (PLAIN.replace('s3cret"', "s3cret"), "PLAIN", "sasl.jaas.config"),
        (PLAIN + PLAIN, "PLAIN", "sasl.jaas.config"),
        ("com.sun.security.auth.module.JndiLoginModule required x=s3cret;", "PLAIN", "sasl.jaas.config"),
        ("s3cret", "PLAIN", "sasl.jaas.config"),
    ],
)
def test_unsupported_jaas_is_refused_without_showing_its_secret(jaas, mechanism, key):
    with pytest.raises(SettingsError) as caught:
        translate(ClientKind.PRODUCER, {"sasl.jaas.config": jaas, "sasl.mechanism": mechanism})
    assert set(caught.value.by_key) == {key}
    assert "s3cret" not in str(caught.value)


def test_pem_and_pkcs12_stores_are_translated():
    pem = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/me.pem",
        "ssl.key.password": "p",
    }
    assert translate(ClientKind.CONSUMER, pem).conf == {
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "p",
    }
    inline = {
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.certificate.chain": "CHAIN",
        "ssl.keystore.key": "KEY",
        "ssl.keystore.type": "PEM",
    }
    assert translate(ClientKind.CONSUMER, inline).conf == {
        "ssl.ca.pem": "CA",
        "ssl.certificate.pem": "CHAIN",
        "ssl.key.pem": "KEY",
    }
    pkcs12 = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "p"}
    assert translate(ClientKind.CONSUMER, pkcs12).conf == {
        "ssl.keystore.location": "/me.p12",
        "ssl.keystore.password": "p",
    }


def test_jks_stores_are_refused_with_the_command_that_converts_them():
    with pytest.raises(SettingsError) as caught:
        translate(ClientKind.CONSUMER, {"ssl.truststore.location": "/ca.jks", "ssl.keystore.location": "/me.jks"})
    assert set(caught.value.by_key) == {"ssl.truststore.location", "ssl.keystore.location"}
    assert all("keytool" in reason for reason in caught.value.by_key.values())


def test_disabled_host_name_check_causes_a_warning():
    translated = translate(ClientKind.PRODUCER, {"ssl.endpoint.identification.algorithm": ""})
    assert translated.conf == {"ssl.endpoint.identification.algorithm": "none"}
    assert len(translated.warnings) == 1


def test_dependent_settings_are_adjusted_to_each_other():
    open_client(ClientKind.PRODUCER, producer_conf({"reconnect.backoff.ms": "2000", "retry.backoff.ms": "3000"}).conf)
    open_client(
        ClientKind.CONSUMER,
        translate(ClientKind.CONSUMER, {"max.poll.interval.ms": "1", "session.timeout.ms": "9"}).conf,
    )


def test_small_fetch_size_is_accepted():
    open_client(ClientKind.CONSUMER, translate(ClientKind.CONSUMER, {"fetch.max.bytes": "50000"}).conf)


def test_a_sink_fetches_little_at_once_unless_the_user_says_otherwise():
    own = sink_conf({}, "g", "c").conf
    assert int(own["fetch.max.bytes"]) <= 8 << 20
    open_client(ClientKind.CONSUMER, own)
    for bytes_, message in (("50000", "50000"), ("52428800", None)):
        conf = sink_conf({"fetch.max.bytes": bytes_}, "g", "c").conf
        assert (conf["fetch.max.bytes"], conf.get("message.max.bytes")) == (bytes_, message)
        open_client(ClientKind.CONSUMER, conf)


@pytest.mark.parametrize(
    ("given", "lacking"),
    [
        ({}, []),
        ({"group.instance.id": "one", "partition.assignment.strategy": "CooperativeStickyAssignor"}, []),
        ({"max.poll.interval.ms": "9000", "session.timeout.ms": "9000", "check.crcs": "true"}, []),
        ({"client.rack": "here", "isolation.level": "read_uncommitted"}, ["client.rack"]),
        ({"statistics.interval.ms": "1000"}, ["statistics.interval.ms"]),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, ["sasl.mechanism"]),
    ],
)
def test_sink_reads_whole_batches_unless_a_setting_is_only_librdkafkas(given, lacking, with_kerberos):
    assert sorted(lacking_to_read(sink_conf(given, "g", "c").conf)) == lacking


@pytest.mark.parametrize(("given", "warnings"), [("consumer", 1), ("CONSUMER", 1), ("classic", 0)])
def test_sink_joins_a_classic_group_for_any_group_protocol_setting(given: str, warnings: int) -> None:
    found = sink_conf({"group.protocol": given, "session.timeout.ms": "6000"}, "g", "c")
    assert found.conf["group.protocol"] == "classic"
    assert len(found.warnings) == warnings
    open_client(ClientKind.CONSUMER, found.conf)


def test_own_settings_override_user_settings_that_break_a_guarantee():
    user = {"linger.ms": "50", "acks": "0", "delivery.timeout.ms": "1000", "isolation.level": "read_uncommitted"}
    transactional = transactional_conf(user, "g-c-0")
    assert (transactional.conf["linger.ms"], transactional.conf["acks"]) == ("1000", "all")
    assert transactional_conf({**user, "transaction.timeout.ms": "2000"}, "g-c-0").conf["linger.ms"] == "500"
    assert transactional_conf({**user, "linger.ms": "5000"}, "g-c-0").conf["linger.ms"] == "5000"
    assert producer_conf(user).conf["linger.ms"] == "50.0"
    assert "delivery.timeout.ms" not in transactional.conf
    assert len(transactional.warnings) == 3
    open_client(ClientKind.PRODUCER, transactional.conf)
    open_client(ClientKind.PRODUCER, producer_conf({"delivery.timeout.ms": "120000"}).conf)
    reader = reader_conf(user).conf
    assert reader["isolation.level"] == "read_committed"
    open_client(ClientKind.CONSUMER, reader)
    open_client(ClientKind.CONSUMER, member_conf({"group.id": "mine"}, "connect").conf)
    open_client(ClientKind.ADMIN, admin_conf({}).conf)


def test_translated_keys_are_neither_guarded_nor_without_counterpart():
    assert not set(RULES) & set(GUARDED)
    assert not (set(RULES) | set(GUARDED)) & NO_COUNTERPART


def test_settings_error_is_a_config_error():
    assert issubclass(SettingsError, ConfigError)


def test_translation_opens_no_client():
    code = "import sys, fencepost.kafka.setting.client_settings; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_plan_is_read_committed_by_default_and_never_reset_silently():
    conf = plan_conf({"bootstrap.servers": "b:1", "auto.offset.reset": "latest", "group.id": "mine"}).conf
    assert (conf["isolation.level"], conf["auto.offset.reset"]) == ("read_committed", "error")
    assert conf["group.id"] != "mine"
    assert "partition.assignment.strategy" not in conf
    assert plan_conf({"isolation.level": "read_uncommitted"}).conf["isolation.level"] == "read_uncommitted"
    assert (begins_at({}), begins_at({"auto.offset.reset": "Latest"})) == ("earliest", "latest")


@pytest.mark.parametrize(
    "given",
    [
        {"group.protocol": "consumer", "group.remote.assignor": "uniform"},
        {"max.poll.interval.ms": "3000", "session.timeout.ms": "2000"},
    ],
)
def test_plan_settings_open_a_client_for_any_group_membership_settings(given):
    Consumer(plan_conf({**BROKER, **given}).conf).close()


@pytest.mark.parametrize(("given", "chosen"), [("batch", "batch"), ("auto", None), ("librdkafka", None), (None, None)])
def test_client_setting_applies_to_transactions_and_is_hidden_from_librdkafka(given, chosen):
    properties = {"bootstrap.servers": "a:1", "client": given}
    assert transactional_conf(properties, "id").conf.get(CLIENT) == chosen
    assert CLIENT not in producer_conf(properties).conf


def test_batch_client_accepts_all_implemented_compressions():
    assert COMPRESSIONS == compress.NAMES


def test_settings_unknown_to_the_chosen_client_are_refused_by_given_name():
    properties = {"bootstrap.servers": "a:1", "client": "batch", "send.buffer.bytes": "4096"}
    with pytest.raises(SettingsError) as refused:
        transactional_conf(properties, "id")
    assert list(refused.value.by_key) == ["send.buffer.bytes"]


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"},
        {},  # Kerberos is what is meant
    ],
)
def test_sasl_mechanism_unsupported_by_the_batch_client_is_refused_by_name(given, with_kerberos):
    properties = {"bootstrap.servers": "a:1", "client": "batch", "security.protocol": "SASL_SSL", **given}
    with pytest.raises(
        SettingsError, match=r"sasl\.mechanism: .*OAUTHBEARER: remove it, or use the client librdkafka"
    ) as refused:
        transactional_conf(properties, "id")
    assert "sasl.mechanism" in refused.value.by_key


def test_own_transactional_settings_are_supported_by_the_batch_client():
    conf = transactional_conf({"bootstrap.servers": "a:1", "client": "batch"}, "id").conf
    assert lacking({key: value for key, value in conf.items() if key != CLIENT}) == {}


@pytest.fixture
def with_kerberos(monkeypatch):
    """A librdkafka that was built with Kerberos."""
    monkeypatch.setattr(translation, "why_no_kerberos", lambda: None)


@pytest.mark.parametrize("given", [{"sasl.mechanism": "GSSAPI"}, {"sasl.mechanism": "gssapi"}, {}])
@pytest.mark.parametrize("protocol", ["SASL_SSL", "sasl_plaintext"])
def test_kerberos_is_refused_with_alternatives_when_the_library_lacks_it(given, protocol):
    with pytest.raises(SettingsError) as refused:
        reader_conf({"security.protocol": protocol, **given})
    reason = refused.value.by_key["sasl.mechanism"]
    for text in ("built with it", "SCRAM-SHA-512", "`fencepost docs how-to/secure-clients#kerberos`"):
        assert text in reason


def test_kerberos_login_module_is_refused_with_a_link_to_the_guide():
    module = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/secret" principal="a@B";'
    with pytest.raises(SettingsError) as refused:
        reader_conf({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.jaas.config": module})
    assert list(refused.value.by_key) == ["sasl.jaas.config"]
    assert "`fencepost docs how-to/secure-clients#kerberos`" in refused.value.by_key["sasl.jaas.config"]
    assert "secret" not in str(refused.value)


def test_kerberos_settings_are_passed_on_when_the_library_supports_kerberos(with_kerberos):
    given = {"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
    assert reader_conf(given).conf.items() >= given.items()


def test_kerberos_check_agrees_with_librdkafkas_own_refusal():
    try:
        Consumer({"group.id": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}).close()
        refusal = ""
    except KafkaException as error:
        refusal = str(error)
    assert ("GSSAPI" in refusal) == ("built with it" in (why_no_kerberos() or ""))
