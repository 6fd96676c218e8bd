"""The reader that watches and the one that comes afterwards, and marks that outlive a process, on the real broker."""

import subprocess
import sys
import threading

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.setting.client_settings import producer_conf
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.source import Marks
from fencepost.testing.verdict import judge
from support.clients import column
from support.proxy import KafkaProxy


def _produced(kafka, topic, values):
    client = LibrdkafkaProducer(producer_conf({"bootstrap.servers": kafka.bootstrap_servers}).conf)
    client.produce_columns(*column(topic, values))
    client.flush(60)
    client.drop()


def test_live_reading_and_reading_afterwards_have_the_same_verdict(kafka, topic_name):
    values = [b"%d" % n for n in range(50_000)]
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    with CommittedReader(kafka.bootstrap_servers, [topic_name]) as reader:
        _produced(kafka, topic_name, values)
        watched = reader.catch_up()
    afterwards = reader.read_all()
    for seen in (watched, afterwards):
        verdict = judge({"all": values}, seen, sighting=lambda o: ("all", o.value))
        assert verdict.is_clean, verdict


def test_reader_waits_for_a_topic_that_does_not_exist_yet(kafka, topic_name):
    with CommittedReader(kafka.bootstrap_servers, [topic_name]) as reader:
        assert reader.seen() == []
        _produced(kafka, topic_name, [b"first"])
        eventually(lambda: [o.value for o in reader.seen()] == [b"first"])


def test_a_reader_survives_lost_connections_and_sees_everything_once(kafka, topic_name):
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(topic_name, partitions=1, replication=1)
    values = [b"%d" % n for n in range(3_000)]
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        with CommittedReader(proxy.bootstrap_servers, [topic_name]) as reader:
            for start in range(0, 3_000, 1_000):
                _produced(kafka, topic_name, values[start : start + 1_000])
                proxy.reset_all()
            verdict = judge({"all": values}, reader.catch_up(), sighting=lambda o: ("all", o.value))
            assert verdict.is_clean, verdict


def test_the_error_that_ended_a_reader_is_raised_by_its_next_call(kafka, topic_name, monkeypatch):
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(topic_name, partitions=1, replication=1)
    _produced(kafka, topic_name, [b"%d" % n for n in range(10)])
    with CommittedReader(kafka.bootstrap_servers, [topic_name]) as reader:
        assert len(reader.catch_up()) == 10
        monkeypatch.setattr("fencepost.testing.reader.Observation", None)  # any error in the thread
        (thread,) = (each for each in threading.enumerate() if each.name == f"reader-{topic_name}")

        def has_ended():
            _produced(kafka, topic_name, [b"another"])  # the read under way still takes what comes as it did
            return not thread.is_alive()

        eventually(has_ended)
        with pytest.raises(TypeError):
            reader.seen()


def test_mark_survives_when_its_process_is_killed_right_after_setting_it(kafka, topic_name):
    marks = Marks(kafka.bootstrap_servers, topic_name)
    assert marks.count("a") == 0
    code = (
        "import os, signal, sys; from fencepost.testing.source import Marks; "
        "Marks(sys.argv[1], sys.argv[2]).set('a'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, kafka.bootstrap_servers, topic_name], check=False, timeout=120)
    assert done.returncode == -9
    assert marks.count("a") == 1
    marks.set("b")
    marks.set("a")
    assert (marks.count("a"), marks.count("b")) == (2, 1)


def test_a_paused_proxy_lets_nothing_through_until_it_resumes(kafka, topic_name):
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        admin = Admin({"bootstrap.servers": proxy.bootstrap_servers})
        assert admin.topics.partitions(topic_name) is None
        proxy.pause()
        answered = threading.Event()
        thread = threading.Thread(target=lambda: (admin.topics.partitions(topic_name), answered.set()))
        thread.start()
        assert not answered.wait(0.3)
        proxy.resume()
        assert answered.wait(60)
        thread.join()
