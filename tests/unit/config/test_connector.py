import pytest

from fencepost.config import ConfigError, topic_name
from fencepost.config.connector import PredicateSpec, SourceConnectorConfig, TransactionBoundary

NEEDED = {"name": "c", "connector.class": "X"}


def test_transaction_boundary_is_read_in_any_case():
    config = SourceConnectorConfig({**NEEDED, "transaction.boundary": "INTERVAL", "exactly.once.support": "Required"})
    assert config.boundary is TransactionBoundary.INTERVAL
    assert config.exactly_once_support == "Required"
    assert config.transaction_boundary_interval_ms is None


def test_transforms_are_read_in_order_with_their_predicates():
    config = SourceConnectorConfig(
        {
            **NEEDED,
            "transforms": "b, a",
            "transforms.a.type": "A",
            "transforms.a.x": "1",
            "transforms.b.type": "B",
            "transforms.b.predicate": "p",
            "transforms.b.negate": "true",
            "predicates": "p",
            "predicates.p.type": "P",
            "predicates.p.name": "n",
        }
    )
    b, a = config.transform_specs()
    assert (a.type, a.properties, a.predicate, a.negate) == ("A", {"x": "1"}, None, False)
    assert (b.alias, b.predicate, b.negate) == ("b", PredicateSpec("p", "P", {"name": "n"}), True)


def test_topic_creation_groups_inherit_from_default_and_come_before_it():
    config = SourceConnectorConfig(
        {
            **NEEDED,
            "topic.creation.groups": "logs,default",
            "topic.creation.default.replication.factor": "-1",
            "topic.creation.default.partitions": "3",
            "topic.creation.logs.include": "logs-.*, trace",
            "topic.creation.logs.exclude": ".*-tmp",
            "topic.creation.logs.partitions": "7",
            "topic.creation.logs.cleanup.policy": "compact",
        }
    )
    logs, default = config.topic_creation()
    assert (logs.partitions, logs.replication_factor, logs.configs) == (7, -1, {"cleanup.policy": "compact"})
    assert logs.matches("logs-a")
    assert not logs.matches("logs-a-tmp")
    assert not logs.matches("my-logs-a")
    assert (default.name, default.partitions) == ("default", 3)
    assert default.matches("anything")


def test_topic_creation_is_left_to_the_broker_unless_configured():
    assert SourceConnectorConfig(NEEDED).topic_creation() == ()


def test_topic_creation_without_the_numbers_of_the_default_group_is_refused():
    config = SourceConnectorConfig({**NEEDED, "topic.creation.groups": "a"})
    with pytest.raises(ConfigError) as caught:
        config.topic_creation()
    assert len(caught.value.messages) == 2


def test_duplicate_transform_alias_is_refused():
    with pytest.raises(ConfigError, match=r"configuration transforms: Duplicate alias provided\."):
        SourceConnectorConfig({**NEEDED, "transforms": "a,a"})


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249])
def test_topic_name_valid_in_kafka_is_accepted(name):
    assert topic_name()(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "é", "a/b", "a\n"])
def test_topic_name_invalid_in_kafka_is_refused(name):
    assert topic_name()(name)
