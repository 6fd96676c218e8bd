"""VerifiableSource: numbers without a gap, whatever the restart."""

from fencepost.api import Batch
from fencepost.builtin.connector.generator import VerifiableSourceConnector, VerifiableSourceTask
from fencepost.record.schema import INT32, INT64
from support.task_context import Context, Offsets


def started(committed: Offsets | None = None, **more: object) -> VerifiableSourceTask:
    config = VerifiableSourceConnector({"topic": "numbers", "id": "2", "name": "v", **more})
    task = VerifiableSourceTask()
    task.initialize(Context(committed), config)
    task.start()
    return task


def batch_of(task: VerifiableSourceTask) -> Batch:
    batch = task.poll()
    assert batch is not None
    return batch


def test_verifiable_source_keys_values_and_offsets_equal_kafkas() -> None:
    record = batch_of(started()).record(7)
    assert (record.key, record.key_schema, record.value, record.value_schema) == (2, INT32, 7, INT64)
    assert (record.source_partition, record.source_offset) == ({"id": 2}, {"seqno": 7})
    assert record.topic == "numbers"


def test_verifiable_source_resumes_after_the_committed_number() -> None:
    assert batch_of(started([({"id": 2}, {"seqno": 41})])).record(0).value == 42


def test_verifiable_source_batches_continue_without_a_gap() -> None:
    task = started()
    first, second = batch_of(task), batch_of(task)
    assert len(first) == 1000
    assert [*first.values, *second.values] == list(range(2000))
    assert first.last_offsets() == [({"id": 2}, {"seqno": 999})]


def test_throttled_verifiable_source_waits_instead_of_bursting() -> None:
    task = started(throughput="5")
    assert task.poll() is None
    assert task.context.waits[0] <= 0.2  # type: ignore[attr-defined]


def test_complete_verifiable_records_contain_name_task_and_topic() -> None:
    value = batch_of(started(**{"complete.record.data": "true"})).record(3).value
    assert value.pop("time_ms") > 0
    assert value == {"name": "v", "task": 2, "topic": "numbers", "seqno": 3}


def test_each_verifiable_source_task_has_its_own_id() -> None:
    configs = VerifiableSourceConnector({"topic": "numbers", "throughput": "9"}).task_configs(3)
    assert [config["id"] for config in configs] == ["0", "1", "2"]
    assert all(config["throughput"] == "9" for config in configs)
