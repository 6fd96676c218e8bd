"""Names of topics and schemas made of names that Kafka or Avro do not allow."""

import pytest

from fencepost.builtin.postgres.envelope import name
from fencepost.builtin.postgres.envelope.settings import TOPIC_NAMING
from support.postgres_config import postgres_settings


def test_topic_has_an_underscore_for_each_java_character_that_kafka_refuses() -> None:
    assert name.topic(postgres_settings(), "shop", "Odd Näme 😀") == "pre.shop.Odd_N_me___"


def test_unicode_naming_writes_code_points() -> None:
    made = postgres_settings(topic_naming_strategy=TOPIC_NAMING[1])
    assert name.topic(made, "shop", "ä") == "pre.shop._u00e4"


def test_topic_is_cut_at_kafkas_limit() -> None:
    assert len(name.topic(postgres_settings(), "shop", "t" * 300)) == 249


def test_topics_of_heartbeats_and_transactions_have_the_delimiter() -> None:
    made = postgres_settings(topic_delimiter="_")
    assert name.heartbeat_topic(made) == "__debezium-heartbeat_pre"
    assert name.transaction_topic(made) == "pre_transaction"
    assert name.heartbeat_topic(postgres_settings(topic_heartbeat_name="beats")) == "beats"


@pytest.mark.parametrize(
    ("mode", "given", "expected"),
    [
        ("none", "1a b", "1a b"), ("avro", "1a b", "_1a_b"), ("avro", "ab-c", "ab_c"), ("avro", "_a", "_a"),
        ("avro_unicode", "1a", "_u0031a"), ("avro_unicode", "a_b", "a_u005fb"), ("avro_unicode", "ü", "_u00fc"),
    ],
)  # fmt: skip
def test_field_name_is_adjusted_for_avro(mode: str, given: str, expected: str) -> None:
    assert name.field_name(postgres_settings(field_name_adjustment_mode=mode), given) == expected
