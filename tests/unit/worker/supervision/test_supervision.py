"""What a worker follows when the config topic has something new."""

from typing import Any, cast

from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.supervision.supervision import Supervision


class Notes:
    """The rooms of a supervision in one, which take notes of what they are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def assigned(self) -> None:
        self.told.append("board")

    def changed(self, snapshot: ClusterSnapshot) -> None:
        self.told.append("snapshot")


def test_overwritten_states_are_checked_with_each_assignment() -> None:
    supervision, notes = object.__new__(Supervision), Notes()
    supervision.board = supervision.supervisor = supervision.connectors = cast(Any, notes)
    supervision.changed(ClusterSnapshot())
    assert notes.told == ["board", "snapshot", "snapshot"]
