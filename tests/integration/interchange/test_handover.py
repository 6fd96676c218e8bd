"""Our worker takes over what a Kafka Connect 4.3.1 has left, and leaves what one has gone on from (recorded, live).

How the two were recorded, and the same without a break five times over: `tests/oracle/live_handover.py`.
"""

import contextlib
import json
from typing import Any, NamedTuple

import pytest
from masking import masked

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.setting.client_settings import producer_conf
from fencepost.testing import eventually
from fencepost.testing.verdict import Verdict
from oracle.handover import (
    FILES,
    FIXTURE,
    GROUP,
    LINES,
    OURS,
    SETTINGS,
    STATES,
    TOPICS,
    Watched,
    append,
    compacted,
    numbered,
    turn,
)
from oracle.scenario import dump
from support.clients import column
from support.cluster import WorkerOfRun

OWN_KINDS = ("fencepost-", "session-key")  # records of ours, and a random key


class TakenOver(NamedTuple):
    """States, verdict and topics of our worker after it has taken over."""

    states: dict[str, tuple[str, int]]
    verdict: Verdict
    left: dict[str, Any]


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """The internal topics, as Kafka Connect left them and as our worker left them after it."""
    return dict(json.loads(FIXTURE.read_text()))


@pytest.fixture(scope="module")
def taken_over(kafka: EmbeddedKafka, recorded: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> TakenOver:
    directory = tmp_path_factory.mktemp("handover")
    for name in FILES:
        append(directory, name, 0)
    _restore(kafka, recorded["connect"])
    worker = WorkerOfRun(kafka.bootstrap_servers, directory, {**SETTINGS, **OURS}, group=GROUP)
    cluster = Watched(kafka.bootstrap_servers, f"http://127.0.0.1:{worker.port}")
    try:
        with contextlib.chdir(directory):  # where relative file names start
            worker.start()
        turn(1)(cluster, directory)
        states = cluster.states()
    except AssertionError:
        print(worker.log_text()[-4000:])
        raise
    finally:
        worker.stop()
    return TakenOver(states, cluster.judged(2 * LINES), compacted(dump(kafka.bootstrap_servers, TOPICS)))


def _restore(kafka: EmbeddedKafka, left: dict[str, Any]) -> None:
    """Write the internal topics byte for byte, and the records that were delivered.

    The names are those of the recording. The other scenario has some of them, too, on the broker that all tests share.
    """
    conf = {"bootstrap.servers": kafka.bootstrap_servers}
    admin, producer = Admin(conf), LibrdkafkaProducer(producer_conf(conf).conf)
    own = {*TOPICS.values(), *FILES, "many"}
    admin.topics.delete([name for name in admin.topics.names() if name in own])
    eventually(lambda: own.isdisjoint(admin.topics.names()))
    for name, topic in left.items():
        compact = {"cleanup.policy": "compact"}
        admin.topics.create(TOPICS[name], partitions=topic["partitions"], replication=1, configs=compact)
        for record in topic["records"]:
            producer.produce(
                TOPICS[name], record["value"].encode(), key=record["key"].encode(), partition=record["partition"]
            )
    for name in FILES:
        producer.produce_columns(*column(name, [line.encode() for line in numbered(0)]))
    for record in left["offset"]["records"]:
        connector, partition = json.loads(record["key"])
        if connector == "many":
            for number in range(json.loads(record["value"])["seqno"] + 1):
                producer.produce("many", b"%d" % number, key=b"%d" % partition["id"])
    producer.flush(30)
    producer.drop()


def test_every_connector_is_found_as_kafka_connect_left_it(taken_over: TakenOver) -> None:
    assert taken_over.states == STATES


def test_fencepost_continues_exactly_where_kafka_connect_stopped(taken_over: TakenOver) -> None:
    assert taken_over.verdict.is_clean, str(taken_over.verdict)


@pytest.mark.parametrize("topic", ["config", "offset", "status"])
def test_kafka_connect_continues_from_the_topics_that_fencepost_leaves(
    taken_over: TakenOver, recorded: dict[str, Any], topic: str
) -> None:
    assert _comparable(taken_over.left[topic]) == _comparable(recorded["fencepost"][topic])


@pytest.mark.parametrize("topic", ["config", "offset", "status"])
def test_no_key_moves_to_another_partition(taken_over: TakenOver, recorded: dict[str, Any], topic: str) -> None:
    """If one moved, the next worker would find an old value next to the new one, and compaction would keep both."""
    before = _keys(recorded["connect"][topic])
    assert before <= _keys(taken_over.left[topic])


def _keys(topic: dict[str, Any]) -> set[tuple[int, str]]:
    return {(r["partition"], r["key"]) for r in topic["records"] if not r["key"].startswith(OWN_KINDS)}


def _comparable(topic: dict[str, Any]) -> dict[tuple[int, str], Any]:
    found = {(r["partition"], r["key"]): masked(json.loads(r["value"])) for r in topic["records"]}
    for value in found.values():
        value.pop("seqno", None)  # how far depends on how long it ran
    return {key: value for key, value in found.items() if not key[1].startswith(OWN_KINDS)}
