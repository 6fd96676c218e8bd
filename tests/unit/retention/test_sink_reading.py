"""Which sinks read which topics: in doubt they do."""

import pytest

from fencepost.config.reference import RawConfig
from fencepost.config.worker import WorkerConfig
from fencepost.retention.survey import SinkReading, reading, readings
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.plan import is_source, known
from fencepost.worker.settings import WorkerSettings
from support.settings import SETTINGS

SINK, SOURCE = "FileStreamSink", "FileStreamSource"


def settings(**more: str) -> WorkerSettings:
    given = {key.replace("_", "."): value for key, value in more.items()}
    return WorkerSettings(WorkerConfig({**SETTINGS, "bootstrap.servers": "here:9092", **given}), "http://w:1", "me")


def look_up(config: RawConfig) -> RawConfig:
    return known(settings().config, config)


def read(**config: str) -> SinkReading:
    """Return what a sink reads; in the keys of its config dots are written as `__`."""
    return reading("c", {key.replace("__", "."): value for key, value in config.items()}, settings(), look_up)


def found(**connectors: dict[str, str]) -> list[str]:
    snapshot = ClusterSnapshot(connectors=connectors)
    return [each.connector for each in readings(snapshot, settings(), is_source, look_up)]


def test_sink_reads_exactly_its_listed_topics() -> None:
    own = read(topics=" a, b ,,c")
    assert own.topics == {"a", "b", "c"}
    assert [own.covers(topic) for topic in ("a", "c", "ab", "")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("pattern", "topic", "is_read"),
    [
        ("a.*", "ab", True),
        ("a.*", "xab", False),
        ("b", "ab", False),
        ("a|b", "b", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"\p{Lower}+", "ab", True),
        ("(", "anything", True),
        ("[a", "anything", True),
        (r"\p{NoSuch}", "anything", True),
    ],
)
def test_topic_pattern_matches_whole_names_and_an_unreadable_one_every_topic(
    pattern: str, topic: str, is_read: bool
) -> None:
    assert read(topics__regex=pattern).covers(topic) is is_read


def test_resend_topic_of_dead_letters_is_read_by_its_sink() -> None:
    assert read(topics="a", errors__deadletterqueue__resend__topic__name=" again ").topics == {"a", "again"}


def test_sink_group_comes_from_its_config_or_its_name() -> None:
    assert read(topics="a").group == "connect-c"
    assert read(topics="a", consumer__override__group__id="g").group == "g"


def test_sink_group_is_looked_up_in_the_cluster_that_the_sink_reads() -> None:
    assert read(topics="a").servers == "here:9092"
    assert read(topics="a", consumer__override__bootstrap__servers="far:1").servers == "far:1"
    away = read(topics="a", admin__override__bootstrap__servers="letters:1")
    assert (away.servers, away.conf["bootstrap.servers"]) == ("here:9092", "here:9092")


def test_sink_group_is_looked_up_with_the_principal_of_the_sink() -> None:
    override = {"admin__override__security__protocol": "SASL_PLAINTEXT", "admin__override__sasl__mechanism": "PLAIN"}
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    own = read(topics="a", **override, admin__override__sasl__jaas__config=login)
    assert own.conf["sasl.username"] == "u"
    assert own == read(topics="a")  # its principal does not make it another one


def test_unreadable_client_settings_of_a_sink_are_reported() -> None:
    own = read(topics="a", admin__override__security__protocol="SASL_SSL", admin__override__sasl__jaas__config="what?")
    assert own.fault
    assert own.covers("a")


def test_connector_with_topics_counts_as_a_sink_even_if_its_class_is_absent() -> None:
    assert found(
        sink={"connector.class": SINK, "topics": "a"},
        pattern={"connector.class": SINK, "topics.regex": "a"},
        unknown={"connector.class": "org.example.Gone", "topics": "a"},
        nameless={"topics": "a"},
        source={"connector.class": SOURCE, "topics": "a", "topic": "a"},
        silent={"connector.class": "org.example.Gone", "file": "f"},
    ) == ["nameless", "pattern", "sink", "unknown"]


def test_sinks_with_different_topics_groups_or_clusters_are_not_equal() -> None:
    own = read(topics="a")
    assert own == read(topics="a")
    for other in (
        read(topics="a,b"),
        read(topics="a", topics__regex="b"),
        read(topics="a", consumer__override__group__id="g"),
        read(topics="a", consumer__override__bootstrap__servers="far:1"),
    ):
        assert own != other


def test_config_references_of_a_sink_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_TOPICS", "a,b")
    declared = settings(config_providers="env").config.originals | {
        "config.providers.env.class": "EnvVarConfigProvider"
    }
    worker = WorkerConfig(declared)
    own = reading(
        "c",
        {"topics": "${env:FENCEPOST_TOPICS}", "consumer.override.group.id": "${env:FENCEPOST_TOPICS}"},
        WorkerSettings(worker, "http://w:1", "me"),
        lambda config: known(worker, config),
    )
    assert (own.topics, own.group, own.fault) == ({"a", "b"}, "a,b", "")


def test_sink_with_unresolvable_references_may_read_any_topic_e9() -> None:
    own = read(topics="${file:/x:topics}")
    assert own.covers("anything")
    assert "refers to file" in own.fault
