"""Dead letters of a source on the real broker: a record is in its topic or a dead letter, exactly once (E15)."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from lone_updating import UpdatingRun, record

from fencepost.api import SourceTask
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.task.channel.task_spec import DeadLetterSpec
from fencepost.testing import eventually
from support.chaos.wire import names
from support.proxy import Action, ApiKey, KafkaProxy

Start = Callable[..., UpdatingRun]
Letters = Callable[..., list[Any]]

CONFIG = {
    "errors.tolerance": "all",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
BAD = {"not": "a text"}  # what a value of schema STRING is not

both_modes = pytest.mark.parametrize("is_exactly_once", [True, False], ids=["exactly once", "at least once"])


@pytest.fixture
def dead(topic_name: str) -> str:
    return f"{topic_name}-dead"


@pytest.fixture
def how(kafka: EmbeddedKafka, dead: str) -> dict[str, Any]:
    """How a task is started that has a dead letter topic."""
    admin = {"admin_conf": {"bootstrap.servers": kafka.bootstrap_servers}}
    letters = {"dead_letters": DeadLetterSpec(dead, 1, headers=True)}
    return {"config": CONFIG, "update": None, **letters, **admin}


@pytest.fixture
def letters(kafka: EmbeddedKafka, dead: str) -> Letters:
    """Reads the committed dead letters, to the end that the log has at the call; by default waits for transactions.

    Those that are committed, too: a commit is answered before its markers are in the log.
    """
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})

    def ends(*, read_committed: bool) -> dict[tuple[str, int], int]:
        return admin.offsets.ends([(dead, 0)], read_committed=read_committed)

    def read(*, waits: bool = True) -> list[Any]:
        eventually(lambda: not waits or ends(read_committed=True) == ends(read_committed=False))
        end = ends(read_committed=True)
        conf = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": dead, "enable.partition.eof": True}
        consumer = Consumer({**conf, "enable.auto.commit": False})
        found: list[Any] = []
        try:
            consumer.assign([TopicPartition(dead, 0, 0)])
            while end[dead, 0]:
                message = consumer.poll(60)
                assert message is not None, "the end of the log is not reached"
                if message.error() is not None:
                    break  # the end
                found.append(message)
        finally:
            consumer.close()
        return found

    return read


def bad(file: str, line: int, **more: Any) -> Callable[[str], Any]:
    return record(file, line, value=BAD, **more)


@both_modes
def test_e15_bad_record_becomes_one_dead_letter_and_others_are_delivered_once(
    start: Start, how: dict[str, Any], letters: Letters, topic_name: str, is_exactly_once: bool
) -> None:
    run = start(
        [record("a", 1), bad("a", 2, key="k", timestamp=5), record("a", 3)], is_exactly_once=is_exactly_once, **how
    )
    run.await_idle()
    run.stop()
    assert run.values() == ['"a1"', '"a3"']
    assert run.offsets() == {"a": {"line": 3}}
    [letter] = letters()
    assert orjson.loads(letter.value()) == BAD
    assert letter.key() == b'"k"'
    assert letter.timestamp()[1] > 1_700_000_000_000  # its own, and not that of its record
    assert dict(letter.headers())["__fencepost.record.timestamp"] == b"5"
    context = {name.removeprefix("__connect.errors."): value.decode() for name, value in letter.headers()}
    assert orjson.loads(context["partition"]) == {"file": "a"}
    assert orjson.loads(context["offset"]) == {"line": 2}
    assert {key: context[key] for key in ("topic", "connector.name", "task.id", "stage")} == {
        "topic": topic_name,
        "connector.name": topic_name,
        "task.id": "0",
        "stage": "VALUE_CONVERTER",
    }
    assert context["class.name"].endswith("JsonConverter")
    assert context["exception.class.name"].endswith("RecordError")
    assert "exception.message" in context
    assert "Traceback" in context["exception.stacktrace"]
    errors = run.runner.counters.errors
    assert (errors.dead_letters, errors.dead_letter_failures, errors.skipped) == (1, 0, 1)


def test_e15_task_killed_before_its_commit_leaves_no_dead_letter(
    start: Start, how: dict[str, Any], letters: Letters, kafka: EmbeddedKafka, dead: str
) -> None:
    """All that is sent is in the log; the process is gone before the commit: as after a SIGKILL."""
    batch = [record("a", 1), bad("a", 2), record("a", 3)]
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        end = proxy.on(ApiKey.END_TXN, Action.HOLD, 1)
        run = start(batch, via=proxy.bootstrap_servers, **how)
        end.await_met()
        admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
        run.abandon()
        assert admin.offsets.ends([(dead, 0)], read_committed=False)[dead, 0] > 0
        assert letters(waits=False) == []
        newer = start(batch, **how)  # fences the first, whose transaction is aborted
        newer.await_idle()
        newer.stop()
        end.discard()
    assert newer.script.offsets_at_start == []
    assert newer.values() == ['"a1"', '"a3"']
    assert newer.offsets() == {"a": {"line": 3}}
    assert [orjson.loads(letter.value()) for letter in letters()] == [BAD]


def test_e15_aborted_transaction_leaves_no_dead_letter(start: Start, how: dict[str, Any], letters: Letters) -> None:
    """With connector-defined boundaries: what the connector takes back is not kept as a letter either (KIP-618)."""

    def ask(task: SourceTask) -> list[Any]:
        task.context.transaction.abort_transaction()  # type: ignore[union-attr]
        return [record("a", 1), bad("a", 2)]

    run = start(ask, boundary="connector", **how)
    run.await_idle()
    run.stop()
    assert (run.values(), letters(), run.offsets()) == ([], [], {"a": {"line": 2}})


def test_e15_batch_of_only_bad_records_is_a_transaction_of_its_own(
    start: Start, how: dict[str, Any], letters: Letters
) -> None:
    run = start([bad("a", 1), bad("a", 2)], **how)
    run.await_idle()
    run.stop()
    assert run.values() == []
    assert run.offsets() == {"a": {"line": 2}}
    assert len(letters()) == 2


def test_e15_at_least_once_no_offset_passes_an_unacknowledged_dead_letter(
    start: Start, how: dict[str, Any], kafka: EmbeddedKafka, dead: str, letters: Letters
) -> None:
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        held = proxy.on(ApiKey.PRODUCE, Action.HOLD, 1, lambda request: names(request, dead))
        changes = {"is_exactly_once": False, "offset_flush_timeout_ms": 100, "update": lambda offsets: None}
        run = start([bad("a", 2)], via=proxy.bootstrap_servers, **{**how, **changes})
        held.await_met()
        run.await_done(lambda done: done.count("update") >= 3)
        assert all(given == {} for given in run.script.given)  # nothing is about to be committed
        held.release()
        eventually(lambda: run.stored() == {"a": {"line": 2}})
        run.ensure_runs()
    assert len(letters()) == 1


@both_modes
def test_e15_refused_dead_letter_fails_the_task_and_no_offset_passes_it(
    start: Start, how: dict[str, Any], kafka: EmbeddedKafka, dead: str, is_exactly_once: bool
) -> None:
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.topics.create(dead, partitions=1, replication=1, configs={"max.message.bytes": "200"})
    run = start([record("a", 1), bad("a", 2)], is_exactly_once=is_exactly_once, batch_bytes=1, **how)
    assert dead in run.trace
    assert (run.stored(), run.runner.counters.errors.dead_letter_failures > 0) == ({}, True)


def test_task_without_error_tolerance_fails_and_leaves_no_dead_letter(
    start: Start, how: dict[str, Any], kafka: EmbeddedKafka, dead: str
) -> None:
    """It would be one for each start of the task: the record is polled again."""
    run = start([bad("a", 1)], **{**how, "config": {**CONFIG, "errors.tolerance": "none"}})
    assert "Tolerance exceeded" in run.trace
    assert Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.partitions(dead) is None
