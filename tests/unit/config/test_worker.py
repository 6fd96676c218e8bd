import re
from pathlib import Path

import pytest

from fencepost.config import ConfigError
from fencepost.config.client import ConnectionConfig, SecurityConfig
from fencepost.config.file import read_properties
from fencepost.config.rest import Listener
from fencepost.config.setting import rendered
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.kafka.setting.table import NO_COUNTERPART
from support.settings import SETTINGS

ROOT = Path(__file__).resolve().parents[3]


def worker(**more: str) -> WorkerConfig:
    return WorkerConfig({**SETTINGS, **{k.replace("_", "."): v for k, v in more.items()}})


def test_worker_defaults_equal_kafka_connects_except_the_rebalance_delay():
    config = worker()
    assert config.bootstrap_servers == ["localhost:9092"]
    assert (config.offset_storage_partitions, config.status_storage_partitions) == (25, 5)
    assert config.offset_flush_interval_ms == 60_000
    assert config.exactly_once is ExactlyOnceSource.DISABLED
    assert config.rest_listeners == (Listener("http", "", 8083),)
    assert config.admin_rest_listeners is None
    assert config.scheduled_rebalance_max_delay_ms == 0
    assert (config.slots_max, config.slot_lease_ms) == (0, 10_000)


def test_worker_config_reports_all_errors_at_once(tmp_path):
    path = tmp_path / "worker.properties"
    path.write_text(
        "group.id=g\nconfig.storage.topic=c\noffset.storage.topic=bad topic\nkey.converter=k\nvalue.converter=v\n"
        "offset.flush.interval.ms=often\nlisteners=8083\ntopic.creation.enable=yes\nconnect.protocol=telepathic\n"
    )
    with pytest.raises(ConfigError) as caught:
        WorkerConfig(read_properties(path))
    messages = caught.value.messages
    assert len(messages) == 6
    for key in ("status.storage.topic", "offset.storage.topic", "offset.flush.interval.ms", "listeners"):
        assert sum(key in message for message in messages) == 1
    assert (
        "Invalid value yes for configuration topic.creation.enable: Expected value to be either true or false"
        in messages
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"exactly.once.source.support": "ENABLED"}, ExactlyOnceSource.ENABLED),
        ({"exactly.once.source.support": "preparing"}, ExactlyOnceSource.PREPARING),
        ({"exactly.once.source.enabled": "true"}, ExactlyOnceSource.ENABLED),
        ({"exactly.once.source.enabled": "false"}, ExactlyOnceSource.DISABLED),
        ({"exactly.once.source.enabled": "true", "exactly.once.source.support": "enabled"}, ExactlyOnceSource.ENABLED),
    ],
)
def test_exactly_once_is_read_from_both_of_its_keys(settings, expected):
    assert WorkerConfig({**SETTINGS, **settings}).exactly_once is expected


@pytest.mark.parametrize(("enabled", "support"), [("true", "preparing"), ("true", "disabled"), ("false", "enabled")])
def test_contradicting_exactly_once_keys_are_refused(enabled, support):
    with pytest.raises(ConfigError, match=f"exactly.once.source.enabled: contradicts .*{support}"):
        WorkerConfig({**SETTINGS, "exactly.once.source.enabled": enabled, "exactly.once.source.support": support})


def test_worker_config_refuses_incompatible_settings():
    with pytest.raises(ConfigError) as caught:
        WorkerConfig(
            {**SETTINGS, "heartbeat.interval.ms": "20000", "inter.worker.verification.algorithms": "HmacSHA512"}
        )
    assert len(caught.value.messages) == 2


def test_unknown_worker_key_is_reported_with_the_nearest_known_key():
    config = worker(offset_flush_intervall_ms="1", xyzzy="1", producer_linger_ms="5", spark_master="local[2]")
    assert config.unknown_keys() == [("offset.flush.intervall.ms", "offset.flush.interval.ms"), ("xyzzy", None)]


def test_missing_worker_key_is_reported_together_with_a_misspelt_one():
    given = {**SETTINGS, "value.convertor": SETTINGS["value.converter"]}
    del given["value.converter"]
    with pytest.raises(ConfigError) as caught:
        WorkerConfig(given)
    assert caught.value.messages == (
        'Missing required configuration "value.converter" which has no default value.',
        "Unknown configuration value.convertor: did you mean value.converter?",
    )


def test_worker_config_warns_about_settings_without_effect():
    config = worker(transactional_id="mine", config_storage_partitions="3", offset_storage_cleanup_policy="delete")
    assert config.unknown_keys() == []
    assert len(config.warnings()) == 3
    assert "transactional.id" in config.warnings()[0]


def test_security_rest_extension_is_refused_unless_rest_is_unprotected():
    settings = {**SETTINGS, "rest.extension.classes": "com.example.SecurityRestExtension"}
    with pytest.raises(ConfigError, match=r"com\.example\.SecurityRestExtension.*rest\.unprotected=accepted"):
        WorkerConfig(settings)
    [warning] = WorkerConfig({**settings, "rest.unprotected": "accepted"}).warnings()
    assert "rest.extension.classes" in warning


def test_listener_settings_are_not_passed_to_kafka_clients():
    of_listeners = {"admin.listeners": "http://127.0.0.1:1", "admin.listeners.https.ssl.keystore.location": "/k.p12"}
    config = WorkerConfig({**SETTINGS, **of_listeners, "ssl.client.auth": "required"})
    assert config.warnings() == []
    assert list(config.client_properties("admin.")) == ["bootstrap.servers"]
    assert "ssl.client.auth" not in config.internal_client_properties


_HANDED_ON = {*ConnectionConfig.settings(), *SecurityConfig.settings()}  # to Kafka's clients, under these names


def test_every_worker_setting_is_used_or_declared_without_effect():
    source = "\n".join(file.read_text() for file in (ROOT / "src" / "fencepost").rglob("*.py"))
    silent = {
        key
        for key, declared in WorkerConfig.settings().items()
        if declared.without_effect is None
        and key not in _HANDED_ON
        and not re.search(rf"\.{declared.attribute}\b|key_of\(\"{declared.attribute}\"\)", source)
    }
    assert silent == set()
    assert {key for key in _HANDED_ON if key in NO_COUNTERPART} == {
        key for key in _HANDED_ON if WorkerConfig.settings()[key].without_effect
    }


def test_every_worker_key_without_effect_has_one_warning():
    without = [one for one in WorkerConfig.settings().values() if one.without_effect]
    assert len(without) > 7
    config = WorkerConfig(
        {
            **SETTINGS,
            **{one.key: rendered(one.default, one.kind) or "256" for one in without},
            "metrics.context.a": "1",
            "exactly.once.source.support": "enabled",
            "offset.flush.timeout.ms": "1",
        }
    )
    named = [re.findall(r"Ignoring '([^']+)'", text) for text in config.warnings()]
    expected = [*(one.key for one in without), "metrics.context.*", "offset.flush.timeout.ms"]
    assert sorted(key for keys in named for key in keys) == sorted(expected)
    assert not {one.key for one in without} & set(config.internal_client_properties)


def test_worker_settings_are_split_by_prefix():
    config = worker(
        producer_linger_ms="5",
        spark_master="local[2]",
        offset_storage_segment_bytes="1048576",
        offset_storage_cleanup_policy="delete",
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        ssl_client_auth="none",
        session_timeout_ms="9000",
    )
    assert config.client_properties("producer.") == {"bootstrap.servers": "localhost:9092", "linger.ms": "5"}
    assert config.spark == {"spark.master": "local[2]"}
    assert config.internal_client_properties == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://:8083", Listener("http", "", 8083)),
        ("HTTPS://host.example:8443", Listener("https", "host.example", 8443)),
        ("http://[::1]:0", Listener("http", "::1", 0)),
        ("http://0.0.0.0:8083/", Listener("http", "0.0.0.0", 8083)),
    ],
)
def test_listener_is_parsed(text, expected):
    assert Listener.parse(text) == expected


@pytest.mark.parametrize("text", ["", "localhost:8083", "ftp://x:1", "http://x", "http://x:70000", "http://a b:1:2"])
def test_invalid_listener_is_refused(text):
    with pytest.raises(ConfigError):
        Listener.parse(text)


def test_listeners_must_not_be_empty_and_admin_listeners_may():
    with pytest.raises(ConfigError, match="at least one listener"):
        worker(listeners="")
    assert worker(admin_listeners="").admin_rest_listeners == ()


def test_advertised_url_is_reachable_by_other_workers():
    assert worker().advertised_url(default_host="h") == "http://h:8083/"
    assert (
        worker(listeners="http://127.0.0.1:0").advertised_url(default_host="h", bound_port=5) == "http://127.0.0.1:5/"
    )
    config = worker(
        listeners="http://:1,https://:2",
        rest_advertised_listener="https",
        rest_advertised_host_name="::1",
        rest_advertised_port="9",
    )
    assert config.advertised_url(default_host="h") == "https://[::1]:9/"


def test_secrets_in_the_worker_config_are_masked_in_repr():
    assert "hunter2" not in repr(worker(sasl_jaas_config="hunter2").sasl_jaas_config)


def test_sessioned_protocol_is_accepted_with_a_warning():
    [warning] = worker(**{"connect.protocol": "sessioned"}).warnings()
    assert "connect.protocol=sessioned" in warning
    assert worker().warnings() == []
