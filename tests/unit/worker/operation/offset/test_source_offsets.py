"""The order and the ends of a change of offsets, with nothing behind it."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import ConnectError, SourceConnector
from fencepost.cluster.command import ConnectorCommand, PutConnector
from fencepost.cluster.errors import AlreadyExistsError, ConflictError, OperationError
from fencepost.cluster.info import ConnectorOffset
from fencepost.kafka.errors import KafkaAuthorizationError, ReadTimeoutError
from fencepost.kafka.setting.translation import SettingsError
from fencepost.storage.change import TargetState
from fencepost.storage.offset_topic import KnownOffset, encode_key
from fencepost.storage.offset_view import Change, OffsetView
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.transaction import CommitUnknownError, ProduceError, WriterFencedError
from fencepost.worker.operation.offset import source as offset_change
from fencepost.worker.operation.offset.source import SourceOffsets

CONFIG = {"name": "c", "connector.class": "X"}
A = {"p": "a"}
KEY_A, KEY_B = b'["c",{"p":"a"}]', b'["c",{"p":"b"}]'


class Hook(SourceConnector):
    """Its answer is its class's."""

    def alter_offsets(self, offsets: Mapping[Any, Any]) -> bool:
        SourceOffsetsStage.current.log.append(("asked", {dict(p)["p"]: o for p, o in offsets.items()}))
        if SourceOffsetsStage.current.refusal is not None:
            raise SourceOffsetsStage.current.refusal
        return True


class SourceOffsetsStage:
    """A worker that leads; `topic` is what the connector's offsets topic says."""

    current: "SourceOffsetsStage"

    def __init__(self) -> None:
        SourceOffsetsStage.current = self
        self.log: list[Any] = []
        self.topic: dict[str, Any] = {}
        self.has_own = False
        self.group: str | None = None
        self.refusal: Exception | None = None
        self.on_write: Callable[[], None] = lambda: None
        self.on_put: Callable[[], None] = lambda: None
        self.on_read: Callable[[], None] = lambda: None
        settings: Any = SimpleNamespace(
            is_exactly_once=True,
            own_offsets=lambda plan: "own" if self.has_own else None,
            plan=lambda config: SimpleNamespace(offsets_in_group=lambda connector: self.group),
            config=SimpleNamespace(offset_storage_topic="offsets"),
        )
        self.changes = SourceOffsets(settings, self, self, lambda name: Hook, self.round, self.wait)  # type: ignore[arg-type]
        self.snapshot = ClusterSnapshot(
            connectors={"c": CONFIG},
            target_states={"c": TargetState.STOPPED},
            task_count_records={"c": 3},
            commit_offsets={"c": 7},
        )

    # the leader

    def lead(self, command: ConnectorCommand) -> ClusterSnapshot:
        self.log.append(type(command).__name__)
        command.decide(self.snapshot)
        if isinstance(command, PutConnector):
            self.on_put()
            for _, key, value in command.other_records:
                self.log.append(("beside", key, value))
        return self.snapshot

    def round(self, connector: str) -> "Future[None]":
        self.log.append("round")
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def wait(self, connector: str, generation: int | None) -> None:
        self.log.append(("wait", generation))

    # OffsetTopics

    def read(self, connector: str, own: Any, timeout_s: float, *, may_be_missing: bool) -> OffsetView:
        self.log.append("read")
        self.on_read()
        known = [KnownOffset({"p": p}, o, encode_key("c", {"p": p}), 0) for p, o in self.topic.items()]
        return OffsetView(connector, () if own else known, known if own else None)

    # OffsetWriter

    def fence(self, connector: str, config: Any, tasks: int) -> None:
        self.log.append(("fence", tasks))

    def write(self, connector: str, config: Any, changes: Sequence[Change], ensure_allowed: Callable[[], None]) -> None:
        ensure_allowed()
        self.on_write()
        self.store(changes)

    def store(self, changes: Sequence[Change]) -> None:
        self.log.append(("written", [change.main for change in changes]))

    def alter(self, *offsets: tuple[Any, Any]) -> str:
        self.snapshot = replace(self.snapshot, connectors={"c": CONFIG})
        return self.changes.alter("c", [ConnectorOffset(*one) for one in offsets], self.lead)

    def lives_once_more(self) -> None:
        """It was resumed, had tasks, and is stopped again: nothing shows it but the task generation."""
        self.snapshot = replace(self.snapshot, commit_offsets={"c": 9})

    def create(self) -> str:
        self.snapshot = replace(self.snapshot, connectors={})
        command = PutConnector("c", CONFIG, is_create=True)
        return self.changes.create(command, [ConnectorOffset(A, {"n": 1})], self.lead)[1]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> SourceOffsetsStage:
    monkeypatch.setattr(offset_change, "ensure_own_topic", lambda *_: None)
    monkeypatch.setattr(offset_change, "ledger_topic", lambda *_: "")
    return SourceOffsetsStage()


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_all_possible_writers_are_fenced_before_the_offsets_are_read(scene: SourceOffsetsStage) -> None:
    assert scene.alter((A, {"n": 1})) == "The offsets for this connector have been altered successfully"
    stopped = "EnsureStopped"
    assert scene.log == [
        stopped, ("wait", 7), "round", ("fence", 3), stopped, "read", ("asked", {"a": {"n": 1}}), "read", stopped,
        ("written", [(KEY_A, b'{"n":1}')]),
    ]  # fmt: skip


def test_reset_writes_a_tombstone_for_each_partition_that_has_an_offset(scene: SourceOffsetsStage) -> None:
    assert scene.changes.reset("c", scene.lead).endswith("been reset successfully")
    assert not [one for one in scene.log if one[0] == "written"]
    scene.topic = {"a": {"n": 1}, "b": None}
    scene.changes.reset("c", scene.lead)
    assert scene.log[-1] == ("written", [(KEY_A, None)])


def test_unknown_commit_is_read_after_a_fence(scene: SourceOffsetsStage) -> None:
    def unknown() -> None:
        scene.topic["a"] = {"n": 1}
        raise CommitUnknownError("timed out")

    scene.on_write = unknown
    assert scene.alter((A, {"n": 1})).endswith("altered successfully")
    assert scene.log[-2:] == [("fence", 1), "read"]


def test_unknown_commit_that_changed_nothing_is_an_error_with_advice_to_retry(scene: SourceOffsetsStage) -> None:
    scene.on_write = raising(CommitUnknownError("timed out"))
    with pytest.raises(OperationError, match="Nothing was changed; the request can be safely retried"):
        scene.alter((A, {"n": 1}))


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (WriterFencedError("fenced"), ConflictError, "it was started, or its offsets were modified, at the same time"),
        (ProduceError("no right", is_refused=True), OperationError, "source connector c: no right"),
        (ValueError("secret"), OperationError, "^Failed to modify offsets for source connector c$"),
    ],
)
def test_error_of_a_failed_alteration_names_its_cause(
    scene: SourceOffsetsStage, error: Exception, expected: type[OperationError], message: str
) -> None:
    scene.on_write = raising(error)
    with pytest.raises(expected, match=message):
        scene.alter((A, {"n": 1}))


def test_wait_for_an_open_transaction_is_limited(scene: SourceOffsetsStage) -> None:
    scene.on_read = raising(ReadTimeoutError("partition 3"))
    with pytest.raises(OperationError, match=r"^Timed out while trying to read to the end of the offsets topic prior"):
        scene.alter((A, {"n": 1}))


def test_last_offset_given_for_a_partition_is_written(scene: SourceOffsetsStage) -> None:
    """Both would be written, and a copy of a tombstone comes before the copies of values."""
    scene.alter((A, {"n": 1}), (A, None))
    assert scene.log[-1] == ("written", [(KEY_A, None)])


@pytest.mark.parametrize("error", [KafkaAuthorizationError("no Read"), SettingsError({"sasl.mechanism": "unknown"})])
def test_error_of_a_failed_read_names_its_cause(scene: SourceOffsetsStage, error: Exception) -> None:
    scene.on_read = raising(error)
    with pytest.raises(OperationError, match=f"^Failed to retrieve offsets for source connector c: .*{error}"):
        scene.changes.read(scene.snapshot, "c")


PUT_BACK = [
    [(KEY_A, b'{"n":1}'), (KEY_B, None)],
    [(KEY_A, None), (KEY_B, b'{"n":9}')],
]
"""What is written to an offsets topic: new offsets, then the old ones."""


def test_initial_offsets_are_in_the_transaction_of_the_config(scene: SourceOffsetsStage) -> None:
    scene.topic = {"b": {"n": 9}}
    assert scene.create().endswith("altered successfully")
    put = scene.log.index("PutConnector")
    assert [(key, value) for _, key, value in scene.log[put + 1 :]] == [(KEY_A, b'{"n":1}'), (KEY_B, None)]
    assert ("fence", 3) in scene.log[:put]
    assert not [one for one in scene.log if one[0] == "written"]


def test_initial_offsets_in_an_own_topic_are_undone_if_the_connector_is_refused(
    scene: SourceOffsetsStage,
) -> None:
    scene.has_own, scene.topic = True, {"b": {"n": 9}}
    scene.on_put = raising(AlreadyExistsError("taken"))
    with pytest.raises(AlreadyExistsError):
        scene.create()
    assert [one[1] for one in scene.log if one[0] == "written"] == PUT_BACK


def test_initial_offsets_in_a_group_are_undone_if_the_connector_is_refused(
    scene: SourceOffsetsStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_change, "read_offsets", lambda *_, **__: scene.read("c", None, 1.0, may_be_missing=True))
    scene.group, scene.topic = "connect-c", {"b": {"n": 9}}
    scene.on_put = raising(AlreadyExistsError("taken"))
    with pytest.raises(AlreadyExistsError):
        scene.create()
    assert [one[1] for one in scene.log if one[0] == "written"] == PUT_BACK
    assert not [one for one in scene.log if one[0] == "beside"]


def test_missing_right_of_the_workers_principal_is_named(scene: SourceOffsetsStage) -> None:
    def denied() -> None:
        raise OperationError("Failed to write to config topic") from ProduceError("not authorized", is_refused=True)

    scene.on_put = denied
    with pytest.raises(
        OperationError, match=r"not authorized\. The worker's principal must be allowed .* topic offsets"
    ):
        scene.create()


def test_offsets_refused_by_the_connector_are_not_written(scene: SourceOffsetsStage) -> None:
    scene.refusal = ConnectError("not these")
    for act in (scene.create, lambda: scene.alter((A, {"n": 1}))):
        with pytest.raises(OperationError, match=r"^not these$"):
            act()
    assert not [one for one in scene.log if one[0] == "written" or one == "PutConnector"]


def test_partitions_that_differ_as_json_are_altered_separately(scene: SourceOffsetsStage) -> None:
    scene.alter(({"p": 1}, {"n": 1}), ({"p": True}, {"n": 2}), ({"p": 1.0}, {"n": 3}))
    assert scene.log[-1] == (
        "written",
        [(b'["c",{"p":1}]', b'{"n":1}'), (b'["c",{"p":true}]', b'{"n":2}'), (b'["c",{"p":1.0}]', b'{"n":3}')],
    )


@pytest.mark.parametrize("has_own", [False, True])
def test_change_of_offsets_is_refused_when_tasks_lived_during_it(scene: SourceOffsetsStage, has_own: bool) -> None:
    """They may still be ending, and are not fenced: their offsets would follow those that are written here."""
    scene.has_own, scene.topic = has_own, {"a": {"n": 1}}
    scene.on_read = scene.lives_once_more
    for act in (scene.create, lambda: scene.alter((A, {"n": 1})), lambda: scene.changes.reset("c", scene.lead)):
        scene.snapshot = replace(scene.snapshot, commit_offsets={"c": 7}, connectors={"c": CONFIG})
        with pytest.raises(ConflictError, match="make the request again"):
            act()
    assert not [one for one in scene.log if one[0] in ("written", "beside")]


def test_change_of_offsets_is_refused_when_the_config_was_replaced_meanwhile(scene: SourceOffsetsStage) -> None:
    def reconfigure() -> None:
        scene.snapshot = replace(scene.snapshot, connectors={"c": {**CONFIG, "offsets.storage.topic": "o"}})

    scene.on_read = reconfigure
    with pytest.raises(ConflictError, match="make the request again"):
        scene.alter((A, {"n": 1}))
    assert not [one for one in scene.log if one[0] == "written"]
