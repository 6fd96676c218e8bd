"""Which transactional id is locked out when a streaming query has ended without a report."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from fencepost.task.channel.task_spec import OutputSpec, TaskSpec
from fencepost.worker.supervision.fence import TaskFence


@pytest.mark.parametrize(
    ("metadata", "locked_out"), [('{"id":"4b5c"}', ["fencepost-write-4b5c"]), ("{}", []), ("text", []), (None, [])]
)
def test_id_in_a_checkpoint_is_locked_out_if_it_is_one(
    tmp_path: Path, metadata: str | None, locked_out: list[str]
) -> None:
    if metadata is not None:
        (tmp_path / "metadata").write_text(metadata)
    config = {"connector.class": "SqlStream", "checkpoint.location": str(tmp_path)}
    spec = TaskSpec("c", 0, 1, "i", config, config, output=OutputSpec({}, transactional_id="g-c-0"))
    found: list[str] = []

    def fence(ids: Iterable[str], *_: Any) -> None:
        found.extend(ids)

    TaskFence(cast(Any, None), fence).lock_out(spec)
    assert found == locked_out
