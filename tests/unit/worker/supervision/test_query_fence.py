"""Which transactional id is fenced when a streaming query ends without another start."""

from collections.abc import Iterable
from pathlib import Path

from fencepost.config.worker import WorkerConfig
from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.transaction import ConfOf
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.fence import TaskFence
from support.settings import SETTINGS


def fenced(checkpoint: Path) -> list[str]:
    """Return the ids that are fenced for a query with this checkpoint."""
    ids: list[str] = []

    def take(given: Iterable[str], conf_of: ConfOf, timeout_s: float) -> None:
        ids.extend(given)

    config = {"connector.class": "SqlStream", "checkpoint.location": str(checkpoint)}
    spec = TaskSpec("c", 0, 1, "i", config, {}, output=OutputSpec({}, transactional_id="connect-g-c-0"))
    TaskFence(WorkerSettings(WorkerConfig(SETTINGS), "http://w:1", "me"), take).lock_out(spec)
    return ids


def test_query_is_locked_out_by_the_id_of_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"aa8c3329-ac1f-4c3b-903e-06fc65fc6303"}')
    assert fenced(tmp_path) == ["fencepost-write-aa8c3329-ac1f-4c3b-903e-06fc65fc6303"]


def test_query_that_has_not_begun_has_nothing_to_lock_out(tmp_path: Path) -> None:
    assert fenced(tmp_path / "new") == []
