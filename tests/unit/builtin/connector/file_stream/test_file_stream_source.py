"""FileStreamSource: every complete line once, whatever happens to the file."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.api import Batch, ConfigError, ConnectError, ExactlyOnceSupport, FatalError
from fencepost.builtin.connector.file_stream import lines as file_start
from fencepost.builtin.connector.file_stream import lines as line
from fencepost.builtin.connector.file_stream.lines import FileStart, LineReader, fingerprint, split_into_columns
from fencepost.builtin.connector.file_stream.source import FileStreamSourceConnector, FileStreamSourceTask
from fencepost.record import BinaryColumn, PolledAt, Utf8Column
from fencepost.record.schema import STRING
from support.task_context import Context

IN_COLUMNS = {"objects": False, "columns": True}


@pytest.fixture(params=IN_COLUMNS, autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whether the runtime takes columns of Arrow's: lines and positions are the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "takes_columns", IN_COLUMNS[request.param])
        yield


def started(path: Path, offset: dict[str, Any] | None = None, *, batch_size: int = 2000) -> FileStreamSourceTask:
    connector = FileStreamSourceConnector({"file": str(path), "topic": "lines", "batch.size": batch_size})
    task = FileStreamSourceTask()
    task.initialize(Context([({"filename": str(path)}, offset)] if offset else []), connector)
    task.start()
    return task


def polled(task: FileStreamSourceTask) -> list[tuple[str, int]]:
    """All lines that are there now, each with its position."""
    found = []
    while (batch := task.poll()) is not None:
        found += [(r.value, dict(r.source_offset or {})["position"]) for r in batch.records()]
    return found


def test_file_source_offset_is_the_byte_position_after_the_line(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("eins\nzwölf\n\nvier\n", encoding="utf-8")
    assert polled(started(file)) == [("eins", 5), ("zwölf", 12), ("", 13), ("vier", 18)]


def test_file_source_batch_has_undecoded_columns(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\nb\xff\n")
    batch = started(file).poll()
    assert isinstance(batch, Batch)
    assert isinstance(batch.values, Utf8Column)
    assert list(batch.values.raw) == [b"a", b"b\xff"]
    assert isinstance(batch.values.raw, BinaryColumn) is Context.takes_columns
    assert batch.value_schema == STRING
    assert batch.keys is None
    assert batch.last_offsets() == [
        ({"filename": str(file)}, {"position": 5, "fingerprint": fingerprint(b"a\nb\xff\n")})
    ]
    assert list(batch.topics) == ["lines", "lines"]


def test_file_source_timestamp_is_the_time_of_the_poll(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    before = time.time_ns() // 1_000_000
    batch = started(tmp_path / "f").poll()
    assert isinstance(batch, Batch)
    assert isinstance(batch.timestamps, PolledAt)
    assert all(before <= (record.timestamp or 0) <= time.time_ns() // 1_000_000 for record in batch.records())


def test_file_source_splits_lines_at_mixed_line_endings(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\r\nb\rc\n\r\r\nd\n\re\r\n")
    expected = [("a", 3), ("b", 5), ("c", 7), ("", 8), ("", 10), ("d", 12), ("", 13), ("e", 16)]
    assert polled(started(file)) == expected
    assert polled(started(file, batch_size=1)) == expected


def test_file_source_waits_for_the_byte_after_a_trailing_carriage_return(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\r")
    task = started(file)
    assert polled(task) == []
    with file.open("ab") as appended:
        appended.write(b"\nb\r")
    assert polled(task) == [("a", 3)]
    with file.open("ab") as appended:
        appended.write(b"c\n")
    assert polled(task) == [("b", 5), ("c", 7)]


def test_file_source_holds_an_incomplete_line_until_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\nhal")
    task = started(file)
    assert polled(task) == [("a", 2)]
    with file.open("ab") as appended:
        appended.write(b"f")
    assert polled(task) == []
    with file.open("ab") as appended:
        appended.write(b"\nx")
    assert polled(task) == [("half", 7)]


def test_file_source_fills_batches_until_the_end_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "CHUNK_BYTES", 64)
    file = tmp_path / "f"
    file.write_bytes(b"".join(b"line %d\n" % i for i in range(100)))
    task = started(file, batch_size=30)
    sizes = [len(batch) for batch in iter(task.poll, None)]
    assert sizes == [30, 30, 30, 10]


def test_file_source_reads_a_line_longer_than_many_chunks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "CHUNK_BYTES", 16)
    file = tmp_path / "f"
    file.write_bytes(b"s\n" + b"x" * 5000 + b"\r\nend\n")
    task = started(file)
    found: list[tuple[str, int]] = []
    for _ in range(20):
        found += polled(task)
    assert found == [("s", 2), ("x" * 5000, 5004), ("end", 5008)]


def test_file_source_waits_for_a_file_that_does_not_exist_yet(tmp_path: Path) -> None:
    file = tmp_path / "later"
    task = started(file)
    assert task.poll() is None
    file.write_bytes(b"here\n")
    assert polled(task) == [("here", 5)]


def test_file_source_waits_grow_but_stay_short_without_change_notifications(tmp_path: Path) -> None:
    task = started(tmp_path / "not there yet")
    for _ in range(10):
        assert task.poll() is None
    waits = task.context.waits  # type: ignore[attr-defined]
    assert waits[0] == 0.02
    assert waits[-1] == 0.04


def test_file_source_resumes_after_the_committed_position(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\nb\nc\n")
    task = started(file, {"position": 4})
    assert polled(task) == [("c", 6)]


def test_file_source_fails_with_advice_when_the_file_shrinks(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\nb\nc\n")
    task = started(file)
    polled(task)
    os.truncate(file, 3)
    with pytest.raises(FatalError, match=r"f has 3 bytes, but it was read up to byte 6.*under another name"):
        task.poll()


def test_file_source_fails_when_the_committed_position_is_past_the_end(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\n")
    with pytest.raises(FatalError, match="has 2 bytes"):
        started(file, {"position": 10}).poll()


def test_file_source_rereads_an_unfinished_line_that_was_rewritten(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\nlong tail")
    task = started(file)
    polled(task)
    os.truncate(file, 2)
    assert polled(task) == []
    with file.open("ab") as appended:
        appended.write(b"other words\n")
    assert polled(task) == [("other words", 14)]


def test_file_source_continues_in_a_longer_replacement_with_the_same_beginning(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\nb\n")
    task = started(file)
    polled(task)
    (tmp_path / "new").write_bytes(b"a\nb\nc\n")
    os.replace(tmp_path / "new", file)
    assert polled(task) == [("c", 6)]


def test_file_source_fails_when_its_file_is_a_directory(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="not a regular file"):
        started(tmp_path).poll()


@pytest.mark.parametrize("position", ["7", -1, True, 1.5])
def test_file_source_fails_when_the_committed_position_is_no_byte_count(tmp_path: Path, position: object) -> None:
    with pytest.raises(FatalError, match="position"):
        started(tmp_path / "f", {"position": position})


def test_file_source_names_the_missing_file_setting() -> None:
    with pytest.raises(ConfigError, match='Missing required configuration "file" which has no default'):
        FileStreamSourceConnector({"topic": "t"})


def test_file_source_has_one_task_and_supports_exactly_once() -> None:
    connector = FileStreamSourceConnector({"file": "f", "topic": "t"})
    assert connector.task_configs(5) == [{"file": "f", "topic": "t"}]
    assert connector.exactly_once_support() is ExactlyOnceSupport.SUPPORTED


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        ({"filename": "f"}, {}, "contain the key 'position'"),
        ({"filename": "f"}, {"position": "1"}, "Long value"),
        ({"filename": "f"}, {"position": -1}, "non-negative"),
        ({"other": "f"}, {"position": 1}, "contain the key 'filename'"),
    ],
)
def test_file_source_refuses_malformed_altered_offsets(
    partition: dict[str, Any], offset: dict[str, Any], text: str
) -> None:
    connector = FileStreamSourceConnector({"file": "f", "topic": "t"})
    with pytest.raises(ConnectError, match=text):
        connector.alter_offsets({tuple(sorted(partition.items())): offset})
    assert connector.alter_offsets({(("filename", "f"),): {"position": 3}, (("junk", 1),): None})


PIECES = st.lists(st.text(alphabet="aö\n\r", max_size=12).map(str.encode), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, limit=st.integers(1, 5), chunk_bytes=st.sampled_from([2, 3, 7, 64]), data=st.data())
def test_file_source_reads_each_line_once_across_appends_and_restarts(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], limit: int, chunk_bytes: int, data: st.DataObject
) -> None:
    file = tmp_path_factory.mktemp("lines") / "f"
    file.write_bytes(b"")
    seen: list[tuple[bytes, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line, "CHUNK_BYTES", chunk_bytes)
        reader = LineReader(str(file), 0, FileStart(), split_into_columns if Context.takes_columns else None)
        for piece in pieces:
            with file.open("ab") as appended:
                appended.write(piece)
            for _ in range(data.draw(st.integers(0, 8), label="reads")):
                block = reader.read(limit)
                if block is not None:
                    assert 0 < len(block.lines) <= limit
                    assert block.positions[-1] == list(block.positions)[-1]
                    seen += zip(block.lines, block.positions, strict=True)
            if data.draw(st.booleans(), label="restart") and seen:
                seen = seen[: data.draw(st.integers(1, len(seen)), label="committed")]
                reader.close()
                reader = LineReader(
                    str(file), seen[-1][1], FileStart(), split_into_columns if Context.takes_columns else None
                )
        while (block := reader.read(limit)) is not None:
            seen += zip(block.lines, block.positions, strict=True)
        reader.close()
    assert seen == lines_of(b"".join(pieces))


def lines_of(content: bytes) -> list[tuple[bytes, int]]:
    """The plain statement of what lines are."""
    found, start, at = [], 0, 0
    while at < len(content):
        byte = content[at : at + 1]
        if byte == b"\r" and at + 1 == len(content):
            break
        if byte in (b"\n", b"\r"):
            end = at + 2 if content[at : at + 2] == b"\r\n" else at + 1
            found.append((content[start:at], end))
            start = at = end
        else:
            at += 1
    return found


def committed(task: FileStreamSourceTask) -> dict[str, Any]:
    """Return the offset of the last line that is there now."""
    found: dict[str, Any] = {}
    while (batch := task.poll()) is not None:
        found = dict(batch.last_offsets()[0][1] or {})
    return found


def rotated(file: Path, content: bytes) -> None:
    (file.parent / "new").write_bytes(content)
    os.replace(file, file.parent / "old")
    os.replace(file.parent / "new", file)


def copied_and_truncated(file: Path, content: bytes) -> None:
    file.write_bytes(content)


ROTATIONS = pytest.mark.parametrize("rotate", [rotated, copied_and_truncated])
OLD, NEW = b"10:00 a\n10:01 b\n", b"11:00 c\n11:01 longer\n11:02 d\n"


@ROTATIONS
def test_file_source_fails_when_rotation_leaves_a_longer_file(
    tmp_path: Path, rotate: Callable[[Path, bytes], None]
) -> None:
    file = tmp_path / "f"
    file.write_bytes(OLD)
    task = started(file)
    polled(task)
    rotate(file, NEW)
    with pytest.raises(FatalError, match=r"f is not the file that was read up to byte 16.*rotated.*under another name"):
        task.poll()


@ROTATIONS
def test_file_source_fails_at_start_if_the_file_was_rotated_while_stopped(
    tmp_path: Path, rotate: Callable[[Path, bytes], None]
) -> None:
    file = tmp_path / "f"
    file.write_bytes(OLD)
    offset = committed(started(file))
    rotate(file, NEW)
    with pytest.raises(FatalError, match=r"f is not the file that was read up to byte 16"):
        started(file, offset).poll()


@ROTATIONS
def test_file_source_fails_when_a_rotated_file_has_the_same_head(
    tmp_path: Path, rotate: Callable[[Path, bytes], None]
) -> None:
    """The bytes after the head differ, which a running task and a restarted one both notice."""
    file = tmp_path / "f"
    head = b"#Fields: date time\n" * 10
    file.write_bytes(head + OLD)
    task = started(file)
    offset = committed(task)
    rotate(file, head + NEW)
    for each in (task, started(file, offset)):
        with pytest.raises(FatalError, match=r"is not the file that was read"):
            each.poll()


def test_file_source_compares_the_last_bytes_read_of_a_replaced_long_file(tmp_path: Path) -> None:
    file = tmp_path / "f"
    head = b"the same line\n" * (2 * file_start.MOST_BYTES // 14)
    file.write_bytes(head + OLD)
    task = started(file)
    polled(task)
    rotated(file, head + OLD + b"10:02 c\n")
    assert [value for value, _ in polled(task)] == ["10:02 c"]
    rotated(file, head + NEW)
    with pytest.raises(FatalError, match=r"is not the file that was read"):
        task.poll()


def test_file_source_resumes_when_the_rotated_file_is_put_back(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(OLD)
    offset = committed(started(file))
    rotated(file, NEW)
    with pytest.raises(FatalError):
        started(file, offset).poll()
    os.replace(tmp_path / "old", file)
    with file.open("ab") as appended:
        appended.write(b"10:02 c\n")
    assert polled(started(file, offset)) == [("10:02 c", 24)]


def test_file_source_fingerprint_covers_only_bytes_before_the_offset(tmp_path: Path) -> None:
    """So a task can resume after any line even if later, uncommitted bytes change."""
    file = tmp_path / "f"
    lines = [b"%d\n" % n for n in range(20)]
    file.write_bytes(b"".join(lines) + b"begun")
    batch = started(file).poll()
    assert batch is not None
    for number, record in enumerate(batch.records()):
        read = b"".join(lines[: number + 1])
        file.write_bytes(read + b"other\n")
        offset = dict(record.source_offset or {})
        assert offset.keys() == {"position", "fingerprint"}
        assert polled(started(file, offset)) == [("other", len(read) + 6)]
        file.write_bytes(read.replace(b"0", b"1", 1) + b"other\n")
        with pytest.raises(FatalError, match="is not the file that was read"):
            started(file, offset).poll()


def test_file_source_fingerprint_of_a_long_file_covers_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "CHUNK_BYTES", 1000)
    file = tmp_path / "f"
    file.write_bytes(b"".join(b"line %d\n" % n for n in range(10_000)))
    offset = committed(started(file))
    assert offset["fingerprint"].startswith(f"{file_start.MOST_BYTES}:")
    assert committed(started(file, {"position": 7})) == offset  # as another connector has left it
    assert committed(started(file)) == offset
    assert started(file, offset).poll() is None


@pytest.mark.parametrize("fingerprint", [None, 7, "", "7", "x:y", "-1:00", "3:", "99999999999999999999:00"])
def test_file_source_ignores_a_malformed_fingerprint(tmp_path: Path, fingerprint: object) -> None:
    """Another program may have written the offset; that must not stop a task."""
    file = tmp_path / "f"
    file.write_bytes(b"a\nb\n")
    assert polled(started(file, {"position": 2, "fingerprint": fingerprint})) == [("b", 4)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_file_source_fails_with_advice_for_a_utf16_or_utf32_file(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "f").write_bytes("a\nb\n".encode(encoding))
    with pytest.raises(
        FatalError, match=rf"f is encoded in {encoding.upper()}, .*iconv -f {encoding.upper()} -t UTF-8"
    ):
        started(tmp_path / "f").poll()
