"""A connector on a real Kafka, in a process that is killed."""

import json
from typing import Any

import pytest

from fencepost.api import (
    Batch,
    ConfigError,
    DataFrameConnector,
    SinkBatch,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    setting,
)
from fencepost.builtin.connector.generator import VerifiableSourceConnector
from fencepost.builtin.connector.topic import TopicTransformConnector
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger.audit import Audit
from fencepost.testing import COMMIT, CRASH, RAISE, UPDATE_OFFSETS, Pipeline, TestingSource, eventually, judge
from support.new_project import KINDS, run_tests, written


def test_source_continues_after_its_committed_offset_when_its_process_is_killed(
    kafka: EmbeddedKafka, topic_name: str
) -> None:
    config = {"name": topic_name, "topic": topic_name, "throughput": 200}
    with Pipeline(VerifiableSourceConnector, config, kafka=kafka, tasks=2) as pipeline:
        for count in (50, 200):
            pipeline.wait_for(count, topic_name)
            pipeline.crash()
        seen = pipeline.wait_for(400, topic_name)
    lanes: dict[bytes | None, list[int]] = {}
    for one in seen:
        lanes.setdefault(one.key, []).append(int(one.value or b""))
    assert len(lanes) == 2
    assert all(numbers == list(range(len(numbers))) for numbers in lanes.values())


@pytest.mark.parametrize("has_own_offsets", [False, True])
def test_entries_carried_by_a_killed_process_are_written_by_the_next_one(
    kafka: EmbeddedKafka, topic_name: str, has_own_offsets: bool
) -> None:
    ledger = f"{topic_name}-ledger"
    own = {"offsets.storage.topic": f"{topic_name}-offsets"} if has_own_offsets else {}
    config = {"name": topic_name, "topic": topic_name, "throughput": 200, "ledger.topic": ledger, **own}
    with Pipeline(VerifiableSourceConnector, config, kafka=kafka) as pipeline:
        for count in (50, 150):
            pipeline.wait_for(count, topic_name)
            pipeline.crash()
        seen = pipeline.wait_for(250, topic_name)
    assert [int(one.value or b"") for one in seen] == list(range(len(seen)))
    conf = range_conf({"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": "read_committed"}, "audit").conf
    report = Audit(conf, ledger, topic_name, wait_s=60).run()  # one killed at its end leaves a transaction open
    assert (report.differences, report.is_complete) == ([], True)
    assert sum(each.others for each in report.partitions) == 0
    assert sum(each.verified for each in report.partitions) >= len(seen)


def test_script_with_crashes_in_each_method_is_delivered_exactly_once(kafka: EmbeddedKafka) -> None:
    script = ["a", CRASH(), "b", "c", CRASH(UPDATE_OFFSETS), "d", CRASH(COMMIT), "e"]
    with Pipeline.of_script(script, kafka=kafka) as pipeline:
        seen = pipeline.wait_for(5)
    verdict = judge(pipeline.script.expected, seen, sighting=TestingSource.sighting)
    assert verdict.is_clean, verdict


def test_failure_of_a_task_is_reported_with_its_trace(kafka: EmbeddedKafka) -> None:
    with Pipeline.of_script([RAISE("boom")], kafka=kafka) as pipeline:
        assert "ScriptedError: boom" in pipeline.wait_for_failure()
        with pytest.raises(AssertionError, match="task 0 failed"):
            pipeline.wait_for(1)


def test_stream_writes_each_produced_record_once(kafka: EmbeddedKafka, topic_name: str) -> None:
    target = f"{topic_name}-copy"
    config = {"name": topic_name, "topics": topic_name, "output.topic": target}
    with Pipeline(TopicTransformConnector, config, kafka=kafka) as pipeline:
        pipeline.produce(topic_name, range(20), key="k")
        pipeline.wait_for(20, target)
        pipeline.crash()
        pipeline.produce(topic_name, range(20, 40), key="k")
        seen = pipeline.wait_for(40, target)
    assert [json.loads(one.value or b"") for one in seen] == list(range(40))


class FileTask(SinkTask["FileConnector"]):
    def put(self, batch: SinkBatch) -> None:
        with open(self.config.path, "a") as out:
            out.writelines(f"{value}\n" for value in batch.values)


class FileConnector(SinkConnector):
    task = FileTask
    path: str = setting("path")


def test_sink_defined_in_the_test_file_is_found(kafka: EmbeddedKafka, topic_name: str, tmp_path: Any) -> None:
    out = tmp_path / "out"
    out.write_text("")
    config = {"name": topic_name, "topics": topic_name, "path": out}
    with Pipeline(FileConnector, config, kafka=kafka) as pipeline:
        pipeline.produce(topic_name, range(5))
        eventually(lambda: len(out.read_text().splitlines()) >= 5, within_s=60)
    assert out.read_text().splitlines() == ["0", "1", "2", "3", "4"]


class TypedTask(SourceTask["TypedConnector"]):
    is_done = False

    def poll(self) -> Batch | None:
        if self.is_done:
            self.context.wait(0.1)
            return None
        self.is_done = True
        told = {"files": self.config.files, "follows": self.config.follows, "until": self.config.until}
        return Batch.of_rows([told], topic=self.config.topic, source_partition={"only": "one"}, offset="follows")


class TypedConnector(SourceConnector):
    task = TypedTask
    topic: str = setting("topic")
    files: list[str] = setting("files", default=[])
    follows: bool = setting("follows", default=False)
    until: str | None = setting("until", default="never")

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        return [{"topic": self.topic, "files": ["a", "b"], "follows": True, "until": None}]


def test_task_config_is_passed_to_the_task_as_by_a_worker(kafka: EmbeddedKafka, topic_name: str) -> None:
    with Pipeline(TypedConnector, {"name": topic_name, "topic": topic_name}, kafka=kafka) as pipeline:
        [seen] = pipeline.wait_for(1, topic_name)
    assert json.loads(seen.value or b"") == {"files": ["a", "b"], "follows": True, "until": None}


def test_invalid_config_is_refused_as_by_a_worker(kafka: EmbeddedKafka) -> None:
    with pytest.raises(ConfigError, match="throughput"):
        Pipeline(VerifiableSourceConnector, {"topic": "t", "throughput": "fast"}, kafka=kafka).__enter__()


def test_classes_that_another_process_cannot_find_or_run_are_refused() -> None:
    class Hidden(SinkConnector):
        task = FileTask

    with pytest.raises(ValueError, match="define it at the top of a module"):
        Pipeline(Hidden)
    with pytest.raises(ValueError, match="needs Spark"):
        Pipeline(DataFrameConnector)


@pytest.mark.parametrize("kind", KINDS)
def test_generated_kafka_test_of_a_new_project_passes(kafka: EmbeddedKafka, tmp_path: Any, kind: str) -> None:
    name = f"feed-{kind}"
    project = written(tmp_path, kind, name)
    code, said = run_tests(project, ["tests/test_on_kafka.py"], kafka.bootstrap_servers)
    assert code == 0, said
    assert "1 passed" in said
    assert "warning" not in said
