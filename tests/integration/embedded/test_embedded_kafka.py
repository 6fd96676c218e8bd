"""The embedded broker as its users see it: ready, loopback only, small, and durable where asked."""

import contextlib
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer

from fencepost.embedded import BrokerStartError, EmbeddedKafka, EmbeddedKafkaError
from fencepost.embedded.error import PortInUseError
from fencepost.testing import eventually
from support.proxy import Action, ApiKey, KafkaProxy
from support.quick import QUICK, quick_kafka
from support.timing import fastest_s
from support.worker import free_port

_LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def _produce(servers: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def _consume(servers: str, topic: str, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        found: list[bytes] = []

        def is_whole() -> bool:
            found.extend(record.value() or b"" for record in consumer.consume(count - len(found), timeout=1))
            return len(found) >= count

        with contextlib.suppress(AssertionError):  # the caller compares what there is
            eventually(is_whole)
        return found
    finally:
        consumer.close()


def test_produced_records_are_consumed(kafka: EmbeddedKafka, topic_name: str) -> None:
    values = [b"%d" % number for number in range(100)]
    _produce(kafka.bootstrap_servers, topic_name, values)
    assert _consume(kafka.bootstrap_servers, topic_name, 100) == values


def test_a_transaction_commits(kafka: EmbeddedKafka, topic_name: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic_name, "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic_name, b"committed")
    producer.commit_transaction(20)
    assert _consume(kafka.bootstrap_servers, topic_name, 1) == [b"committed"]


def test_cached_broker_starts_within_10_s_of_processor_time(kafka: EmbeddedKafka) -> None:
    """Other work on the machine adds little to processor time; two cores with nothing else to do take less than 5 s."""

    def start_s() -> float:
        with EmbeddedKafka() as started:
            times = psutil.Process(started.pid).cpu_times()
            return times.user + times.system

    assert fastest_s(start_s, below_s=10) < 10


def test_broker_listens_on_the_loopback_interface_only(kafka: EmbeddedKafka) -> None:
    connections = psutil.Process(kafka.pid).net_connections(kind="inet")
    listening = [found for found in connections if found.status == psutil.CONN_LISTEN]
    assert kafka.port in {found.laddr.port for found in listening}
    assert {found.laddr.ip for found in listening} <= _LOOPBACK


def test_broker_uses_less_than_450_mib(kafka: EmbeddedKafka, topic_name: str) -> None:
    _produce(kafka.bootstrap_servers, topic_name, [b"x" * 1000] * 20_000)
    broker = psutil.Process(kafka.pid)
    resident = [process.memory_info().rss for process in (broker, broker.parent()) if process]
    assert sum(resident) < 450 * 1024**2


def test_data_and_port_survive_a_restart_and_a_kill(topic_name: str) -> None:
    with quick_kafka() as kafka:
        servers = kafka.bootstrap_servers
        _produce(servers, topic_name, [b"one"])
        kafka.restart()
        assert kafka.bootstrap_servers == servers
        _produce(servers, topic_name, [b"two"])
        kafka.kill()
        assert not kafka.is_running
        kafka.start()
        assert _consume(servers, topic_name, 2) == [b"one", b"two"]
        directory = kafka.directory
    assert not directory.exists()


def test_data_in_a_given_directory_survive_the_broker(tmp_path: Path, topic_name: str) -> None:
    with quick_kafka(dir=tmp_path / "kafka") as kafka:
        _produce(kafka.bootstrap_servers, topic_name, [b"kept"])
    with quick_kafka(dir=tmp_path / "kafka") as kafka:
        assert _consume(kafka.bootstrap_servers, topic_name, 1) == [b"kept"]


def test_a_refused_setting_is_shown(tmp_path: Path) -> None:
    with pytest.raises(BrokerStartError, match=r"num\.io\.threads"):
        EmbeddedKafka(dir=tmp_path, properties={"num.io.threads": "many"}).start()


def test_a_taken_port_is_named(kafka: EmbeddedKafka) -> None:
    with pytest.raises(PortInUseError, match=f"port {kafka.port} is in use"):
        EmbeddedKafka(port=kafka.port).start()


def test_a_directory_in_use_is_refused(kafka: EmbeddedKafka) -> None:
    with pytest.raises(EmbeddedKafkaError, match="another Kafka runs in"):
        EmbeddedKafka(dir=kafka.directory).start()
    assert kafka.is_running


def test_a_transaction_with_a_decided_commit_is_visible_after_a_kill(topic_name: str) -> None:
    """The broker dies between the decision and the markers, which it withholds from itself here."""
    port = free_port()
    with KafkaProxy("127.0.0.1:0") as internal:
        advertised = {"advertised.listeners": f"CLIENT://127.0.0.1:{port},INTERNAL://{internal.bootstrap_servers}"}
        with quick_kafka(port=port, properties=advertised) as kafka:
            internal.lead_to(kafka.internal_servers)
            producer = Producer(
                {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic_name, "log_level": 0}
            )
            producer.init_transactions(20)
            markers = internal.on(ApiKey.WRITE_TXN_MARKERS, Action.HOLD)
            producer.begin_transaction()
            producer.produce(topic_name, b"decided")
            producer.commit_transaction(20)
            markers.await_met()
            kafka.kill()
            markers.discard()
            kafka.start()
            assert _consume(kafka.bootstrap_servers, topic_name, 1) == [b"decided"]
            assert "Duplicate" not in kafka.log.read_text()  # it began as one that leads nothing


def test_further_options_reach_the_jvm(kafka: EmbeddedKafka) -> None:
    assert QUICK in psutil.Process(kafka.pid).cmdline()
