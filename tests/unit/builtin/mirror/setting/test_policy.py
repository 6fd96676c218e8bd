"""Replication policies: names are translated there and back, and equal those of MirrorMaker 4.3.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import ConfigError, ReplicationPolicy
from fencepost.builtin.mirror.setting.mirror_settings import policy_of

KEY = "replication.policy.class"
SEPARATOR = "replication.policy.separator"
INTERNAL = "replication.policy.internal.topic.separator.enabled"
ALIASES = st.text(alphabet="abcABC0123_-", min_size=1, max_size=9)
TOPICS = st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}", fullmatch=True)


def policy(name: str = "DefaultReplicationPolicy", **properties: str) -> ReplicationPolicy:
    return policy_of(
        KEY, name, {"source.cluster.alias": "A", **{k.replace("_", "."): v for k, v in properties.items()}}
    )


# Topic, remote topic, source, upstream topic, original topic: what Kafka's own classes answer.
DEFAULT = [
    ("t", "A.t", None, None, "t"),
    ("A.t", "A.A.t", "A", "t", "t"),
    ("B.A.t", "A.B.A.t", "B", "A.t", "t"),
    (".t", "A..t", "", "t", "t"),
    ("A.", "A.A.", None, None, "A."),
    ("a..b", "A.a..b", "a", ".b", "b"),
    ("A_t", "A.A_t", None, None, "A_t"),
    ("A.heartbeats", "A.A.heartbeats", "A", "heartbeats", "heartbeats"),
]
IDENTITY = [
    ("t", "t", "A", "t", "t"),
    ("B.A.t", "B.A.t", "A", "B.A.t", "B.A.t"),
    ("heartbeats", "A.heartbeats", None, None, "heartbeats"),
    ("B.A.heartbeats", "A.B.A.heartbeats", "B", "A.heartbeats", "heartbeats"),
    ("myheartbeats", "A.myheartbeats", None, None, "myheartbeats"),
]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        *(("DefaultReplicationPolicy", row) for row in DEFAULT),
        *(("org.apache.kafka.connect.mirror.IdentityReplicationPolicy", row) for row in IDENTITY),
    ],
)
def test_replication_policy_names_equal_those_of_mirrormaker(
    name: str, row: tuple[str, str, str | None, str | None, str]
) -> None:
    found, topic = policy(name), row[0]
    names = (found.format_remote_topic("A", topic), found.topic_source(topic), found.upstream_topic(topic))
    assert (topic, *names, found.original_topic(topic)) == row


@pytest.mark.parametrize(
    ("properties", "syncs", "checkpoints"),
    [
        ({}, "mm2-offset-syncs.A.internal", "A.checkpoints.internal"),
        ({SEPARATOR: "_"}, "mm2-offset-syncs_A_internal", "A_checkpoints_internal"),
        ({SEPARATOR: "_", INTERNAL: "false"}, "mm2-offset-syncs.A.internal", "A.checkpoints.internal"),
        ({INTERNAL: "false"}, "mm2-offset-syncs.A.internal", "A.checkpoints.internal"),
    ],
)
@pytest.mark.parametrize("name", ["DefaultReplicationPolicy", "IdentityReplicationPolicy"])
def test_internal_topics_heed_the_separator(
    name: str, properties: dict[str, str], syncs: str, checkpoints: str
) -> None:
    found = policy(name, **properties)
    assert (found.offset_syncs_topic("A"), found.checkpoints_topic("A")) == (syncs, checkpoints)
    assert found.is_checkpoints_topic(checkpoints)
    assert not found.is_checkpoints_topic(syncs)
    assert found.is_internal_topic(checkpoints)
    assert found.is_internal_topic(syncs)


@pytest.mark.parametrize(
    ("topic", "is_internal"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("mm2.x.internal", True),
        ("B.checkpoints.internal", True),
        ("x.internal", False),
        ("x-internal", False),
        ("mm2-internal", False),
        ("internal", False),
        ("heartbeats", False),
    ],
)
def test_only_kafkas_topics_and_those_of_mirroring_are_internal(topic: str, is_internal: bool) -> None:
    assert policy().is_internal_topic(topic) is is_internal


@pytest.mark.parametrize(
    ("topic", "is_heartbeats"), [("heartbeats", True), ("B.A.heartbeats", True), ("myheartbeats", False), ("t", False)]
)
@pytest.mark.parametrize("name", ["Default", "Identity"])
def test_heartbeats_topic_is_recognized_after_any_number_of_hops(name: str, topic: str, is_heartbeats: bool) -> None:
    assert policy(name).is_heartbeats_topic(topic) is is_heartbeats


@given(ALIASES.filter(lambda alias: "." not in alias), TOPICS, st.sampled_from([".", "+", "::"]))
def test_remote_topic_names_its_source_and_upstream_topic(alias: str, topic: str, separator: str) -> None:
    found = policy(**{SEPARATOR: separator})
    remote = found.format_remote_topic(alias, topic)
    assert (found.topic_source(remote), found.upstream_topic(remote)) == (alias, topic)


@given(st.lists(ALIASES, max_size=4), TOPICS.filter(lambda topic: "." not in topic))
def test_the_original_topic_is_found_through_many_clusters(aliases: list[str], topic: str) -> None:
    found, remote = policy(), topic
    for alias in aliases:
        remote = found.format_remote_topic(alias, remote)
    assert found.original_topic(remote) == topic


def test_error_for_an_unknown_policy_names_the_key_and_the_alternatives() -> None:
    with pytest.raises(ConfigError, match=r"replication\.policy\.class.*com\.acme\.Policy.*IdentityReplicationPolicy"):
        policy("com.acme.Policy")
