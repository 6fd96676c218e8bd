"""The sink type without `transaction.producer`: at least once (KIP-656), killed, and then with transactions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flow import Flow

from fencepost.testing import eventually
from support.cluster import LightWorker
from support.log_writer import LogWriter
from support.mirror.mirror_process import DedicatedModeStage
from support.mirror.rows import values

WITHIN_S = 240
SUPPORT = "exactly.once.source.support"
COUNT = 400


@pytest.fixture
def sent(topic_name: str, source_writer: LogWriter) -> "Sent":
    return Sent(source_writer, source_writer.topic(topic_name))


class Sent:
    """What is in a topic of the source."""

    def __init__(self, writer: LogWriter, topic: str) -> None:
        self._writer = writer
        self.topic = topic
        self.values: list[bytes] = []

    def more(self) -> None:
        texts = [f"{len(self.values) + n}" for n in range(COUNT)]
        self._writer.send(self.topic, texts)
        self.values += [text.encode() for text in texts]

    def is_in(self, found: Callable[[], list[Any]]) -> Callable[[], bool]:
        return lambda: set(self.values) <= set(found())


def transactions_follow(sent: Sent, found: Callable[[], list[Any]], switch: Callable[[], None]) -> None:
    """Check that the switch goes on in the same group: nothing is missing, and nothing comes twice after it."""
    before = found()
    assert set(before) == set(sent.values)
    switch()
    sent.more()
    eventually(sent.is_in(found), within_s=WITHIN_S, every_s=0.2)
    after = found()
    assert after[: len(before)] == before
    assert after[len(before) :] == sent.values[-COUNT:]


def test_dedicated_sink_loses_nothing_when_killed_and_switches_to_transactions(
    tmp_path: Path, source_writer: LogWriter, target_writer: LogWriter, sent: Sent
) -> None:
    scene = DedicatedModeStage(tmp_path, source_writer, target_writer, sent.topic)
    scene.write({">topics": sent.topic, ">connector.type": "sink"})

    def found() -> list[Any]:
        return scene.values(sent.topic)

    def switch() -> None:
        assert process.end() == 0
        exact = f"{scene.b}.{SUPPORT}"
        scene.write(
            {">topics": sent.topic, ">connector.type": "sink", ">transaction.producer": "true", exact: "enabled"}
        )
        process.start()

    with scene.process() as process:
        sent.more()
        eventually(lambda: len(found()) > 0, within_s=WITHIN_S, every_s=0.1)
        sent.more()
        process.kill()
        process.start()
        sent.more()
        eventually(sent.is_in(found), within_s=WITHIN_S, every_s=0.2)
        transactions_follow(sent, found, switch)


@pytest.fixture
def plain_worker(kafka: Any, tmp_path: Path, topic_name: str) -> Iterator[LightWorker]:
    """A worker without exactly-once."""
    with LightWorker(kafka.bootstrap_servers, tmp_path, {SUPPORT: "disabled"}, group=topic_name) as running:
        eventually(running.slots, within_s=WITHIN_S)
        yield running


def test_worker_without_exactly_once_refuses_transactions_and_runs_without(
    plain_worker: LightWorker, source_writer: LogWriter, target_writer: LogWriter, sent: Sent
) -> None:
    flow = Flow(plain_worker, source_writer, target_writer)
    refused = plain_worker.create("refused", flow.config("Sink", topics=sent.topic, transaction__producer="true"))
    assert refused.status_code == 400
    assert "transaction.producer" in refused.text
    assert SUPPORT in refused.text
    sent.more()
    name = flow.start("Sink", topics=sent.topic)

    def found() -> list[Any]:
        return values(target_writer, flow.remote(sent.topic))

    def switch() -> None:
        assert plain_worker.stop() == 0
        plain_worker.properties[SUPPORT] = "enabled"
        plain_worker.start()
        config = flow.config("Sink", topics=sent.topic, transaction__producer="true")
        assert plain_worker.rest.put(f"/connectors/{name}/config", json=config).status_code == 200
        plain_worker.wait_for_tasks(name, "RUNNING")

    eventually(lambda: len(found()) > 0, within_s=WITHIN_S, every_s=0.1)
    sent.more()
    plain_worker.kill()
    plain_worker.start()
    sent.more()
    eventually(sent.is_in(found), within_s=WITHIN_S, every_s=0.2)
    transactions_follow(sent, found, switch)
