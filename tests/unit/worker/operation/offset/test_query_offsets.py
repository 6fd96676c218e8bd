"""The offsets in the checkpoint of a streaming query."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.cluster.errors import BadRequestError
from fencepost.config.worker import WorkerConfig
from fencepost.record import TopicPartition
from fencepost.spark.write.folder import Folder
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.offset.offsets import QueryOffsets, committed_positions
from fencepost.worker.settings import WorkerSettings
from support.settings import SETTINGS


def batch(checkpoint: Path, number: int, *sources: dict[str, Any] | None, is_done: bool = True) -> None:
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(exist_ok=True)
    lines = ["-" if each is None else json.dumps(each) for each in sources]
    (checkpoint / "offsets" / str(number)).write_text("\n".join(["v1", '{"batchWatermarkMs":0}', *lines]))
    if is_done:
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")


def test_offsets_are_those_of_the_last_batch_that_is_done(tmp_path: Path) -> None:
    ids = {"/ids": {"orders": "x"}, "/from": {"orders": {"0": 0}}}
    batch(tmp_path, 9, {"orders": {"0": 10}})
    batch(tmp_path, 10, {"orders": {"0": 23, "1": 17}, **ids}, {"people": {"0": 4}}, None)
    batch(tmp_path, 11, {"orders": {"0": 99}}, is_done=False)
    assert committed_positions(Folder(str(tmp_path))) == {
        TopicPartition("orders", 0): 23,
        TopicPartition("orders", 1): 17,
        TopicPartition("people", 0): 4,
    }


def test_query_without_a_batch_has_no_offsets(tmp_path: Path) -> None:
    assert committed_positions(Folder(str(tmp_path / "new"))) == {}


def test_change_of_offsets_is_refused_with_the_way_to_begin_elsewhere(tmp_path: Path) -> None:
    batch(tmp_path, 0, {"orders": {"0": 10}})
    config = {"checkpoint.location": str(tmp_path)}
    snapshot = ClusterSnapshot(connectors={"c": config})
    offsets = QueryOffsets(WorkerSettings(WorkerConfig(SETTINGS), "http://w:1", "me"), lambda *_: None)
    for change in (lambda: offsets.alter("c", [], lambda _: snapshot), lambda: offsets.reset("c", lambda _: snapshot)):
        with pytest.raises(BadRequestError, match=r"set another checkpoint\.location, and starting\.offsets"):
            change()
