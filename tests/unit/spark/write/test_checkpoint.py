"""What the files of a checkpoint say."""

from pathlib import Path

import pytest

from fencepost.api import FatalError, RetriableError
from fencepost.config import ConfigError
from fencepost.kafka.value.position import GroupOffset
from fencepost.spark.write.checkpoint import Checkpoint
from fencepost.spark.write.folder import Folder

_HEADER = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"spark.sql.shuffle.partitions":"2"}}\n'


def checkpoint(folder: Path, *sources: str) -> Checkpoint:
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "metadata").write_text('{"id":"4b5c"}')
    (folder / "offsets" / "3").write_text(_HEADER + "\n".join(sources))
    return Checkpoint(Folder(str(folder)))


def test_query_is_known_by_the_id_in_its_checkpoint(tmp_path: Path) -> None:
    assert checkpoint(tmp_path, "0").query_id() == "4b5c"


def test_digest_differs_with_any_offset_and_is_the_same_for_a_copy(tmp_path: Path) -> None:
    first = checkpoint(tmp_path, '{"in":{"0":7}}').digest(3)
    assert checkpoint(tmp_path, '{"in":{"0":7}}').digest(3) == first
    assert checkpoint(tmp_path, '{"in":{"0":8}}').digest(3) != first


def test_offsets_are_those_of_kafka_sources_and_the_lower_one_of_two(tmp_path: Path) -> None:
    ours = '{"in":{"0":7,"1":3},"/ids":{"in":"x"},"/from":{"in":{"0":1}}}'
    sparks = '{"in":{"1":2},"other":{"0":9}}'
    found = checkpoint(tmp_path, ours, "-", sparks, '{"logOffset":4}', '{"a":{"b":"c"}}', "12").group_offsets(3)
    assert found == [GroupOffset("in", 0, 7), GroupOffset("in", 1, 2), GroupOffset("other", 0, 9)]


def test_query_without_kafka_has_no_offsets_to_commit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"option commit.group: the query reads no Kafka topic"):
        checkpoint(tmp_path, '{"logOffset":4}').group_offsets(3)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"option checkpointLocation: {tmp_path}/offsets/4 cannot be read"):
        checkpoint(tmp_path, "0").digest(4)


def test_checkpoint_of_another_connector_is_refused_and_names_it(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "made"))
    Checkpoint(folder).claim("connector counts")
    Checkpoint(folder).claim("connector counts")
    with pytest.raises(FatalError, match=r"is the checkpoint of connector counts, and .* remove its file"):
        Checkpoint(folder).claim("connector sums")
    assert Checkpoint(folder).folder.text("fencepost-owner") == "connector counts"


def test_location_with_state_and_without_the_drivers_files_is_not_shared(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with pytest.raises(
        ConfigError, match=rf"option checkpointLocation: file://{tmp_path} on .* is not the driver's, and has "
    ):
        Checkpoint(Folder(f"file://{tmp_path}")).ensure_shared()
    checkpoint(tmp_path, "0").ensure_shared()
    Checkpoint(Folder(str(tmp_path / "none"))).ensure_shared()  # a query without state needs no such location


def test_checkpoint_knows_that_batches_are_decided_once_that_was_noted(tmp_path: Path) -> None:
    made = checkpoint(tmp_path, "0")
    assert not made.has_decisions()
    made.note_decisions("done")
    assert made.has_decisions()
    assert (
        tmp_path / "fencepost-decisions"
    ).read_text() == "Topic done has the decisions about the batches of this query.\n"


def test_decisions_that_cannot_be_noted_fail_no_batch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Checkpoint(Folder(str(tmp_path / "gone"))).note_decisions("done")
    assert f"cannot write {tmp_path}/gone/fencepost-decisions" in caplog.text


def test_file_system_that_fails_is_no_wrong_setting(tmp_path: Path) -> None:
    """A query starts again until it answers."""
    made = checkpoint(tmp_path, "0")
    (tmp_path / "offsets" / "4").mkdir()  # a file that exists and cannot be read
    with pytest.raises(RetriableError, match=rf"option checkpointLocation: {tmp_path}/offsets/4 cannot be read"):
        made.digest(4)
