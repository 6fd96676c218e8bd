"""What a task hands to the driver, and how the driver reads it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api import FatalError
from fencepost.kafka.codec.decode import records_of
from fencepost.kafka.wire.requests import Target
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.write.encode import Encoder
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.staging import Staged, stage


def staged(folder: Path, rows: int, row_bytes: int = 1_000) -> Staged:
    frames = (
        pa.record_batch({"value": [f"{n:0{row_bytes}}" for n in range(at, at + 100)]}) for at in range(0, rows, 100)
    )
    made = Encoder(RecordMaker(["value"], "t"), lambda _: Target("id", 3, 1_000_000), {}, first=0)
    return stage(made, frames, Folder(str(folder)))


def numbers(found: Staged) -> list[int]:
    return sorted(int(record.value or b"") for _, batch in found.batches() for record in records_of(batch))


@pytest.mark.parametrize("is_shared", [True, False])
def test_small_output_travels_in_the_message(tmp_path: Path, is_shared: bool) -> None:
    folder = tmp_path if is_shared else tmp_path / "none"
    found = staged(folder, 500)
    assert (found.rows, found.folder, [*tmp_path.iterdir()]) == (500, None, [])
    assert numbers(found) == list(range(500))
    assert found.size_bytes == len(found.data)


def test_larger_output_is_in_one_file_of_the_shared_folder(tmp_path: Path) -> None:
    found = staged(tmp_path, 5_000)
    (file,) = tmp_path.iterdir()
    assert (file.name, found.data, file.stat().st_size) == (found.name, b"", found.size_bytes)
    assert numbers(found) == list(range(5_000))


def test_two_attempts_of_a_task_write_files_of_their_own(tmp_path: Path) -> None:
    first, second = staged(tmp_path, 2_000), staged(tmp_path, 2_000)
    assert first.name != second.name
    assert numbers(first) == numbers(second)


def test_output_stays_in_the_message_when_the_folder_is_on_another_machine(tmp_path: Path) -> None:
    found = staged(tmp_path / "none", 5_000)
    assert numbers(found) == list(range(5_000))
    assert found.folder is None


def test_output_above_the_limit_is_refused_when_no_folder_is_shared(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match=r"does not see .*none: set option staging.location to a folder"):
        staged(tmp_path / "none", 20_000)


def test_file_that_was_cut_off_is_noticed(tmp_path: Path) -> None:
    found = staged(tmp_path, 5_000)
    file = tmp_path / found.name
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(FatalError, match="should have 10 more bytes"):
        numbers(found)


def test_folder_is_created_and_removed_with_its_files(tmp_path: Path) -> None:
    folder = Folder(f"file:{tmp_path}/a b").below("c")
    folder.remove()
    folder.create()
    with folder.writable("text") as file:
        file.write("ö".encode())
    assert (folder.exists(), folder.text("text")) == (True, "ö")
    Folder(f"{tmp_path}/a b").remove()
    assert (folder.exists(), [*tmp_path.iterdir()]) == (False, [])


def test_location_of_an_unknown_kind_is_refused_by_name() -> None:
    folder: Any = Folder("dbfs://somewhere/else")
    with pytest.raises(ValueError, match="dbfs://somewhere/else is in a file system that Arrow cannot open"):
        folder.exists()
