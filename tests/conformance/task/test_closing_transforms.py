"""Transforms are closed when their task ends, or starts anew, each once."""

from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin import Admin
from fencepost.kafka.setting_table import BATCH, CLIENT
from fencepost.testing import eventually
from fencepost.testing.proxy import Action, ApiKey, KafkaProxy
from support.late.lone_task import LoneTask

CLASS = "closing_transform.Closing"


def settings(*files: Path, **first: str) -> dict[str, str]:
    """Return the properties of a source with a transform for each file."""
    found = {"connector.class": "batch_source.BatchSource", "sizes": "3,2", "transforms": ""}
    for n, file in enumerate(files):
        found |= {f"transforms.{n}.type": CLASS, f"transforms.{n}.path": str(file)}
    found |= {f"transforms.0.{key}": value for key, value in first.items()}
    return found | {"transforms": ",".join(map(str, range(len(files))))}


@pytest.fixture
def topics(kafka: EmbeddedKafka, topic_name: str) -> tuple[str, str]:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    for name in (topic_name, f"{topic_name}-offsets"):
        admin.create_topic(name, partitions=2, replication=1)
    return topic_name, f"{topic_name}-offsets"


def said(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def test_transforms_are_closed_with_their_task_also_behind_one_that_fails_to(
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


def test_transforms_of_an_instance_that_is_given_up_are_closed_and_those_of_the_next_are_others(
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
    instances = sum(report.state == "RUNNING" for report in task.reports)
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
