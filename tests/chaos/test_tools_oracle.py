"""The requests of tools against Kafka Connect itself: what is written down of them is true."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from support.long_form import IS_LONG
from support.tool_replay import TOOLS, play
from support.worker import free_port

sys.path.insert(0, str(Path(__file__).parents[2]))
from oracle.connect import KafkaConnect

pytestmark = pytest.mark.skipif(not IS_LONG, reason="starts a worker of Kafka Connect: make chaos")


@pytest.fixture(scope="module")
def connect(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnect]:
    names = {f"{kind}.storage.topic": f"tools-oracle-{kind}" for kind in ("config", "offset", "status")}
    converters = {f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")}
    own = {"group.id": "tools-oracle", "exactly.once.source.support": "enabled", "offset.flush.interval.ms": "500"}
    settings, directory = own | names | converters, tmp_path_factory.mktemp("connect")
    with KafkaConnect(kafka.bootstrap_servers, directory, free_port(), settings) as running:
        yield running


@pytest.mark.parametrize("tool", TOOLS)
def test_recorded_requests_of_a_tool_succeed_against_kafka_connect(
    connect: KafkaConnect, topic_name: str, tmp_path: Path, tool: str
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    assert play(tool, connect.url, {"name": topic_name, "topic": f"{topic_name}-t", "file": str(lines)}) > 10
