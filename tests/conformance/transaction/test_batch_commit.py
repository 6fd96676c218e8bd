"""A micro-batch and its decision are in one transaction: drivers that die, wake up late, or lose an answer."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.wire.requests import Targets
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.write.committer import PendingBatch, commit_batch, forget_home
from fencepost.spark.write.decision import EmptiedCheckpointError, home_of, transactional_id
from fencepost.spark.write.encode import Encoder
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.options import WriterConfig
from fencepost.spark.write.staging import Staged, stage
from fencepost.testing.reader import read_committed
from support.chaos import wire
from support.proxy import Action, ApiKey, KafkaProxy, Request, Rule

_WITHIN_S = 120.0


class Scene:
    """A query's drivers, each a call of `commit`, on brokers to which all requests go through a proxy."""

    def __init__(self, proxy: KafkaProxy, direct: str, topic: str, folder: Path) -> None:
        self.topic = topic
        self._proxy = proxy
        self._rules: list[Rule] = []
        self.key = uuid.uuid4().hex
        self._direct = direct
        self._folder = folder
        self._decisions = f"{topic}-decisions"
        options = {"kafka.bootstrap.servers": proxy.bootstrap_servers, "topic": topic}
        self._config = WriterConfig.of({**options, "offsets.topic": self._decisions})

    def commit(self, number: int, *values: str, home: str = "") -> bool:
        """Commit a batch of these values, as a driver that has just started."""
        kept: dict[str, object] = {}
        batch = PendingBatch(self.key, number, f"offsets of {number}", home=home)
        try:
            return commit_batch(self._config, batch, [self._staged(values)], kept)  # type: ignore[arg-type]
        finally:
            for committer in kept.values():
                committer.close()  # type: ignore[attr-defined]

    def _staged(self, values: Sequence[str]) -> Staged:
        targets = Targets(self._config.conf(ClientKind.PRODUCER))
        conf = self._config.conf(ClientKind.PRODUCER)
        encoder = Encoder(RecordMaker(["value"], self.topic), targets.get, conf, 0)
        try:
            return stage(encoder, [pa.record_batch({"value": list(values)})], Folder(str(self._folder)))
        finally:
            targets.close()

    def seen(self) -> list[str]:
        """Return the values that a read_committed consumer sees, sorted."""
        found = read_committed({"bootstrap.servers": self._direct}, self.topic, _WITHIN_S)
        return sorted((each.value or b"").decode() for each in found)

    def decided(self) -> int:
        """Return how many decisions a read_committed consumer sees."""
        return len(read_committed({"bootstrap.servers": self._direct}, self._decisions, _WITHIN_S))

    def forget(self, home: str) -> None:
        forget_home(self._config, home)

    def on(self, step: str, action: Action) -> Rule:
        """Apply an action to the next request of this query of a kind."""
        matches: dict[str, tuple[ApiKey, Callable[[Request], bool]]] = {
            "id": (ApiKey.INIT_PRODUCER_ID, lambda request: wire.names(request, transactional_id(self.key))),
            "records": (ApiKey.PRODUCE, lambda request: wire.names(request, self.topic)),
            "decision": (ApiKey.PRODUCE, lambda request: wire.names(request, self._decisions)),
            "end": (ApiKey.END_TXN, lambda request: wire.is_commit(request, [transactional_id(self.key)])),
        }
        api_key, found = matches[step]
        self._rules.append(self._proxy.on(api_key, action, 1, found))
        return self._rules[-1]

    def release(self) -> None:
        """Let everything go that is held."""
        for rule in self._rules:
            rule.release()


@pytest.fixture
def drivers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def scene(kafka: EmbeddedKafka, topic: str, tmp_path: Path, drivers: ThreadPoolExecutor) -> Iterator[Scene]:
    with KafkaProxy(kafka.bootstrap_servers) as proxy:
        made = Scene(proxy, kafka.bootstrap_servers, topic, tmp_path)
        yield made
        made.release()
        drivers.shutdown()


@pytest.mark.parametrize("step", ["id", "records", "decision", "end"])
@pytest.mark.parametrize("action", [Action.ANSWER_LOST, Action.RESET])
def test_batch_is_written_once_when_an_answer_or_a_request_is_lost(scene: Scene, step: str, action: Action) -> None:
    lost = scene.on(step, action)
    scene.commit(0, "a", "b")
    assert lost.met == 1
    assert scene.seen() == ["a", "b"]
    scene.commit(1, "c")
    assert scene.seen() == ["a", "b", "c"]


@pytest.mark.parametrize("step", ["records", "decision", "end"])
def test_batch_of_a_paused_driver_is_written_by_its_successor_alone(
    scene: Scene, drivers: ThreadPoolExecutor, step: str
) -> None:
    """What it had sent, or sends late, is aborted or refused: its successor's rows need not be the same."""
    held = scene.on(step, Action.HOLD)
    older = drivers.submit(scene.commit, 0, "a", "b")
    held.await_met(within_s=_WITHIN_S)
    assert scene.commit(0, "c")
    held.release()
    assert older.result(_WITHIN_S) is False
    assert scene.seen() == ["c"]
    assert scene.decided() == 1


def test_batch_of_a_driver_that_died_after_its_commit_is_skipped(scene: Scene, drivers: ThreadPoolExecutor) -> None:
    held = scene.on("end", Action.HOLD_ANSWER)
    older = drivers.submit(scene.commit, 0, "a", "b")
    held.await_answered(within_s=_WITHIN_S)
    assert scene.commit(0, "c") is False
    assert scene.seen() == ["a", "b"]
    held.release()
    older.result(_WITHIN_S)


def test_decision_is_read_after_the_id_is_taken(scene: Scene, drivers: ThreadPoolExecutor) -> None:
    """A predecessor that is still alive commits while its successor asks for the id."""
    deciding = scene.on("decision", Action.HOLD)
    older: Future[bool] = drivers.submit(scene.commit, 0, "a", "b")
    deciding.await_met(within_s=_WITHIN_S)
    asking = scene.on("id", Action.HOLD)
    newer = drivers.submit(scene.commit, 0, "c")
    asking.await_met(within_s=_WITHIN_S)
    deciding.release()
    assert older.result(_WITHIN_S) is True
    asking.release()
    assert newer.result(_WITHIN_S) is False
    assert scene.seen() == ["a", "b"]


def test_query_with_an_emptied_checkpoint_is_refused_until_it_is_forgotten(scene: Scene) -> None:
    """Spark gives it a new id, under which nothing is decided."""
    home, elsewhere = home_of("counts", "/checkpoint/"), home_of("counts", "/other")
    scene.commit(0, "a", home=home)
    scene.commit(1, "b", home=home)
    scene.key = uuid.uuid4().hex
    for _ in range(2):
        with pytest.raises(EmptiedCheckpointError, match=r"counts with checkpoint location /checkpoint has written"):
            scene.commit(0, "again", home=home)
    assert scene.commit(0, "c", home=elsewhere)
    scene.key = uuid.uuid4().hex
    scene.forget(home)
    assert scene.commit(0, "d", home=home)
    assert scene.commit(1, "e", home=home)
    assert scene.seen() == ["a", "b", "c", "d", "e"]
