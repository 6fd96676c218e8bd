"""A source whose results can be predicted, for the model of the REST life cycle."""

from collections.abc import Mapping
from typing import Any

from fencepost.api import ConnectError, ExactlyOnceSupport, SourceConnector, SourceRecord, SourceTask, setting
from support.board import Board


class BoardTask(SourceTask):
    """Counts each of its source partitions up to the goal, one record a poll, and waits then."""

    config: "BoardConnector"

    def start(self) -> None:
        self.board = Board(self.config.board)
        self.board.note_start(self.config.own_name, self.config.number)
        self._fail_if_broken()
        parts = range(self.config.number, self.config.parts, self.config.count)
        self.at = {part: int(self.context.offset({"part": part}).get("n", 0)) for part in parts}

    def poll(self) -> list[SourceRecord] | None:
        self._fail_if_broken()
        part = next((part for part, n in self.at.items() if n < self.config.goal), None)
        if part is None:
            self.context.wait(0.05)
            return None
        self.at[part] += 1
        n = self.at[part]
        return [SourceRecord({"part": part}, {"n": n}, self.config.topic, value=f"{self.config.own_name}/{part}/{n}")]

    def _fail_if_broken(self) -> None:
        if self.board.is_broken(self.config.own_name, self.config.number):
            raise ConnectError("broken by the test")


class BoardConnector(SourceConnector):
    """`parts` source partitions, spread over at most as many tasks."""

    task = BoardTask
    own_name: str = setting("name", doc="The connector's name.")
    board: str = setting("board", doc="The directory of the board.")
    topic: str = setting("topic", doc="Where records go.")
    parts: int = setting("parts", doc="How many source partitions there are.")
    goal: int = setting("goal", doc="How far each is counted.")
    number: int = setting("task.number", default=0, doc="Set by the connector.")
    count: int = setting("task.count", default=1, doc="Set by the connector.")

    def start(self) -> None:
        board = Board(self.board)
        board.note_start(self.own_name)
        if board.is_broken(self.own_name):
            raise ConnectError("broken by the test")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        count = min(max_tasks, self.parts)
        own = super().task_configs(1)[0]
        return [{**own, "task.number": str(n), "task.count": str(count)} for n in range(count)]

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]) -> bool:
        return True
