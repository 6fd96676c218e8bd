"""Offsets of removed files are forgotten in a transaction of their own, by the rules of any start of the task."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import producer_conf, transactional_conf
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.storage.offset_topic import OffsetReader, encode, encode_key, stored
from fencepost.task.channel.message import Admission
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.transaction import TransactionalWriter
from fencepost.worker.host.split.task import Forgetting

FILES = ("a.csv", "b.csv", "c.csv")


@pytest.fixture
def spec_of(kafka: EmbeddedKafka, topic_name: str) -> Callable[[bool], TaskSpec]:
    """The spec of a task that has committed three files as done."""
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    Admin(servers).topics.create(topic_name, partitions=2, replication=1)

    def spec_of(is_exactly_once: bool = True) -> TaskSpec:
        identity = f"g-{topic_name}-0"
        conf = transactional_conf(servers, identity) if is_exactly_once else producer_conf(servers)
        writer = TransactionalWriter(servers, identity)
        writer.open()
        for file in FILES:
            name, done = encode("c", {"file": file}, {"done": True})
            writer.send(topic_name, done, key=name)
        writer.commit()
        writer.close()
        own = {k: v for k, v in conf.conf.items() if k != "transactional.id"}
        return TaskSpec(
            "c",
            0,
            1,
            "i",
            {},
            {},
            output=OutputSpec(own, topic_name, transactional_id=identity if is_exactly_once else None),
        )

    return spec_of


@pytest.fixture
def remembered(kafka: EmbeddedKafka, topic_name: str) -> Callable[[], set[str]]:
    def read() -> set[str]:
        reader = OffsetReader({"bootstrap.servers": kafka.bootstrap_servers}, topic_name)
        try:
            return {str((p or {})["file"]) for p, _ in stored(reader.read_known("c", 20))}
        finally:
            reader.close()

    return read


def key(file: str) -> bytes:
    return encode_key("c", {"file": file})


KEYS = [key(file) for file in FILES]


@pytest.mark.parametrize("is_exactly_once", [True, False], ids=["exactly once", "at least once"])
def test_only_offsets_of_removed_files_get_tombstones(
    spec_of: Callable[..., TaskSpec], remembered: Callable[[], set[str]], is_exactly_once: bool
) -> None:
    forgetting = Forgetting(spec_of(is_exactly_once), lambda: Admission(True))
    forgetting.finished(key("b.csv"), is_over=True)
    forgetting.finished(key("c.csv"), is_over=False)
    forgetting.finished(key("not committed"), is_over=True)
    due = forgetting.due(KEYS)
    assert due == (key("b.csv"),)
    assert forgetting.try_run(due)
    assert remembered() == {"a.csv", "c.csv"}
    assert forgetting.due([key("a.csv"), key("c.csv")]) == ()


def test_removed_file_is_due_for_a_tombstone_after_two_reports_in_a_row(spec_of: Callable[..., TaskSpec]) -> None:
    forgetting = Forgetting(spec_of(), lambda: Admission(True))
    due = []
    for said in (["a.csv", "b.csv"], ["b.csv"], ["a.csv", "b.csv"], [], ["a.csv"]):
        forgetting.missed([key(file) for file in said])
        due.append(forgetting.due(KEYS))
    assert due == [(), (key("b.csv"),), (key("b.csv"),), (), ()]


def test_tombstone_is_in_the_workers_topic_before_it_is_committed(
    spec_of: Callable[..., TaskSpec], remembered: Callable[[], set[str]]
) -> None:
    """E7: a connector with an offsets topic of its own."""
    copied: list[bytes] = []

    def copy(copies: Sequence[OffsetCopy]) -> None:
        assert remembered() == set(FILES)
        copied.extend(one.key for one in copies if one.value is None)

    spec = spec_of()
    spec = replace(spec, output=replace(spec.output, copies_offsets=True))
    assert Forgetting(spec, lambda: Admission(True), copy).try_run(KEYS)
    assert copied == KEYS
    assert remembered() == set()


def test_tombstone_is_not_committed_when_the_copy_to_the_workers_topic_fails(
    spec_of: Callable[..., TaskSpec], remembered: Callable[[], set[str]]
) -> None:
    def copy(copies: Sequence[OffsetCopy]) -> None:
        raise ConnectionError("not now")

    spec = spec_of()
    spec = replace(spec, output=replace(spec.output, copies_offsets=True))
    assert not Forgetting(spec, lambda: Admission(True), copy).try_run(KEYS)
    assert remembered() == set(FILES)


def test_task_without_admission_writes_no_tombstones(
    spec_of: Callable[..., TaskSpec], remembered: Callable[[], set[str]]
) -> None:
    forgetting = Forgetting(spec_of(), lambda: Admission(False, "a newer start"))
    assert forgetting.try_run(KEYS)
    assert remembered() == set(FILES)


def test_task_fenced_after_its_admission_writes_no_tombstones(
    spec_of: Callable[..., TaskSpec], remembered: Callable[[], set[str]], kafka: EmbeddedKafka
) -> None:
    """E2"""
    spec = spec_of()

    def overtaken() -> Admission:
        newer = TransactionalWriter({"bootstrap.servers": kafka.bootstrap_servers}, str(spec.output.transactional_id))
        newer.open()
        newer.close()
        return Admission(True)

    forgetting = Forgetting(spec, overtaken)
    for file in FILES:
        forgetting.finished(key(file), is_over=True)
    assert not forgetting.try_run(forgetting.due(KEYS))
    assert remembered() == set(FILES)
    assert forgetting.due(KEYS) == tuple(sorted(KEYS))  # and tried again
