"""Transforms are closed when their task ends, or starts anew, each once."""

from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.table import BATCH, CLIENT
from fencepost.task.channel.task_spec import LookUpSpec
from fencepost.testing import eventually
from support.late.lone_task import PLUGINS, LoneTask
from support.log_writer import LogWriter
from support.proxy import Action, ApiKey, KafkaProxy
from support.sink_stage import StartedSink
from support.stream_stage import StreamStage

CLASS = "closing_transform.Closing"


def settings(*files: Path, **first: str) -> dict[str, str]:
    """Return the properties of a source with a transform for each file."""
    return {"connector.class": "batch_source.BatchSource", "sizes": "3,2", **transforms(*files, **first)}


def transforms(*files: Path, **first: str) -> dict[str, str]:
    """Return the properties of a transform for each file; `first`: what else the first of them is told."""
    found = {"transforms": ",".join(map(str, range(len(files))))}
    for n, file in enumerate(files):
        found |= {f"transforms.{n}.type": CLASS, f"transforms.{n}.path": str(file)}
    return found | {f"transforms.0.{key}": value for key, value in first.items()}


@pytest.fixture
def topics(kafka: EmbeddedKafka, topic_name: str) -> tuple[str, str]:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for name in (topic_name, f"{topic_name}-offsets"):
        admin.topics.create(name, partitions=2, replication=1)
    return topic_name, f"{topic_name}-offsets"


def said(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def test_transforms_are_closed_with_their_task_after_one_that_fails_to_close(
    kafka: EmbeddedKafka, topics: tuple[str, str], tmp_path: Path
) -> None:
    files = tmp_path / "one", tmp_path / "other"
    properties = settings(*files, fails="it cannot be closed")
    with LoneTask(kafka.bootstrap_servers, *topics, (), properties=properties) as task:
        eventually(lambda: task.runner.counters.commits == 2)
        assert "closed" not in said(files[0])
    assert task.state == "STOPPED"
    for file in files:
        assert said(file) == [*["applied"] * 5, "closed"]


def test_transforms_of_a_discarded_task_instance_are_closed(
    kafka: EmbeddedKafka, topics: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "one"
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        lost = proxy.on(ApiKey.END_TXN, Action.RESET)
        via = proxy.bootstrap_servers
        conf = {CLIENT: BATCH}  # which ends with its connection
        with LoneTask(kafka.bootstrap_servers, *topics, (), via=via, conf=conf, properties=settings(file)) as task:
            eventually(lambda: task.runner.counters.commits == 2, within_s=60)
        assert lost.met == 1
    instances = sum(report.state == "RUNNING" and not report.counters["commits"] for report in task.reports)
    assert instances > 1
    assert said(file).count("closed") == instances
    assert said(file)[-1] == "closed"


def test_transforms_of_a_task_that_cannot_be_made_are_closed(
    kafka: EmbeddedKafka, topics: tuple[str, str], tmp_path: Path
) -> None:
    properties = settings(tmp_path / "one") | {"sizes": "many"}
    with LoneTask(kafka.bootstrap_servers, *topics, (), properties=properties) as task:
        eventually(lambda: task.state == "FAILED")
    assert said(tmp_path / "one") == ["closed"]


def test_transforms_of_a_sink_are_closed_with_it(log_writer: LogWriter, topic_name: str, tmp_path: Path) -> None:
    log_writer.send(log_writer.topic(topic_name), ["a", "b"])
    file, out = tmp_path / "one", tmp_path / "out"
    with StartedSink(log_writer.bootstrap, topic_name, out, properties=transforms(file), plugins=PLUGINS):
        eventually(lambda: out.exists() and out.read_text() == "a\nb\n")
        assert "closed" not in said(file)
    assert said(file) == ["applied", "applied", "closed"]


def test_transforms_of_a_sink_that_cannot_start_are_closed(
    log_writer: LogWriter, topic_name: str, tmp_path: Path
) -> None:
    file, out = tmp_path / "one", tmp_path / "nowhere" / "out"
    log_writer.topic(topic_name)
    with StartedSink(log_writer.bootstrap, topic_name, out, properties=transforms(file), plugins=PLUGINS) as sink:
        eventually(lambda: any(report.state == "FAILED" for report in sink.reports))
    assert said(file) == ["closed"]


def test_input_and_output_transforms_of_a_stream_are_closed_with_it(
    kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    files = tmp_path / "in", tmp_path / "out"
    way_out = {f"output.{key}": value for key, value in transforms(files[1]).items()}
    stage = StreamStage(kafka.bootstrap_servers, topic_name)
    try:
        plugins = *stage.spec().look_up.plugin_path, PLUGINS
        run = stage.start(config={**transforms(files[0]), **way_out}, look_up=LookUpSpec(plugins))
        stage.produce(["a"])
        stage.await_values(1)
        run.stop()
        for file in files:
            assert said(file) == ["applied", "closed"]
    finally:
        stage.close()
