"""The spool directory on a running worker: what goes wrong with files, and what users see of it."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from file_connector import append, file_source

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.storage.offset_topic import OffsetReader, stored
from fencepost.testing import eventually
from support.small_disk import enlarge, small_disk
from support.worker import Worker

Values = Callable[..., list[str]]


def _config(directory: Path, topic: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "SpoolDirectorySource",
        "input.path": str(directory),
        "input.schema": "id INT, name STRING",
        "reader.header": "true",
        "topic": topic,
        "poll.interval.ms": "200",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        **more,
    }


def _put(directory: Path, name: str, rows: list[str]) -> None:
    """Make a file appear whole."""
    directory.mkdir(exist_ok=True)
    hidden = directory / f".{name}"
    hidden.write_text("id,name\n" + "".join(f"{row}\n" for row in rows))
    hidden.rename(directory / name)


def _ids(values: list[str]) -> list[int]:
    return [json.loads(v)["id"] for v in values]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "in"
    found.mkdir()
    return found


def test_new_files_are_picked_up_and_done_ones_are_moved(worker: Worker, name: str, directory: Path, values: Values):
    done = directory.parent / "done"
    _put(directory, "a.csv", ["1,x", "2,y"])
    more = {"finished.action": "move", "finished.path": str(done)}
    assert worker.create(name, _config(directory, name, **more)).status_code == 201
    assert _ids(values(name, at_least=2, within_s=60)) == [1, 2]
    _put(directory, "b.csv", ["3,z"])
    assert _ids(values(name, at_least=3, within_s=60)) == [1, 2, 3]
    assert eventually(lambda: sorted(p.name for p in done.iterdir()) == ["a.csv", "b.csv"], within_s=60)
    worker.wait_for_tasks(name, "RUNNING")


@pytest.fixture
def remembered(worker: Worker, kafka: EmbeddedKafka, name: str) -> Iterator[Callable[[], list[str]]]:
    """Returns the names of the files that the offsets topic knows as done."""
    reader = OffsetReader({"bootstrap.servers": kafka.bootstrap_servers}, worker.properties["offset.storage.topic"])
    yield lambda: sorted(str((p or {})["file"]).rpartition("/")[2] for p, _ in stored(reader.read_known(name, 20)))
    reader.close()


def test_a_file_removed_by_the_source_is_forgotten_without_a_new_file(
    worker: Worker, name: str, directory: Path, values: Values, remembered: Callable[[], list[str]]
):
    """KIP-910: a file once processed can be removed from the offsets topic; those that are kept cannot."""
    _put(directory, "a.csv", ["1,x"])
    _put(directory, "b.csv", ["2,y"])
    worker.create(name, _config(directory, name))
    assert _ids(values(name, at_least=2, within_s=60)) == [1, 2]
    assert eventually(lambda: remembered() == ["a.csv", "b.csv"], within_s=60)
    worker.rest.put(f"/connectors/{name}/config", json=_config(directory, name, **{"finished.action": "delete"}))
    assert eventually(lambda: remembered() == [], within_s=60)
    assert list(directory.iterdir()) == []
    _put(directory, "c.csv", ["3,z"])
    assert _ids(values(name, at_least=3, within_s=60)) == [1, 2, 3]
    assert eventually(lambda: remembered() == [] and not list(directory.iterdir()), within_s=60)


def test_a_file_removed_by_hand_is_forgotten_without_a_new_file(
    worker: Worker, name: str, directory: Path, values: Values, remembered: Callable[[], list[str]]
):
    _put(directory, "a.csv", ["1,x"])
    _put(directory, "b.csv", ["2,y"])
    worker.create(name, _config(directory, name))
    assert _ids(values(name, at_least=2, within_s=60)) == [1, 2]
    (directory / "a.csv").unlink()
    assert eventually(lambda: remembered() == ["b.csv"], within_s=60)
    (directory / "b.csv").unlink()
    assert eventually(lambda: remembered() == [], within_s=60)


def _turn(link: Path, target: Path) -> None:
    """Let a link point elsewhere, at once."""
    other = link.with_name(f"{link.name}.new")
    other.symlink_to(target)
    other.rename(link)


def test_files_are_not_delivered_again_after_their_directory_was_away(
    worker: Worker, name: str, directory: Path, values: Values, remembered: Callable[[], list[str]]
):
    away, instead, link = directory, directory.with_name("instead"), directory.with_name("link")
    _turn(link, away)
    _put(away, "a.csv", ["1,x"])
    worker.create(name, _config(link, name))
    assert _ids(values(name, at_least=1, within_s=60)) == [1]
    _put(instead, "b.csv", ["2,y"])
    _turn(link, instead)
    assert _ids(values(name, at_least=2, within_s=60)) == [1, 2]
    _put(instead, "c.csv", ["3,z"])
    assert _ids(values(name, at_least=3, within_s=60)) == [1, 2, 3]
    _turn(link, away)
    _put(away, "d.csv", ["4,w"])
    assert _ids(values(name, at_least=4, within_s=60)) == [1, 2, 3, 4]
    assert remembered() == ["a.csv", "b.csv", "c.csv", "d.csv"]
    worker.wait_for_tasks(name, "RUNNING")


def test_files_are_not_delivered_again_after_being_inaccessible(
    worker: Worker, name: str, directory: Path, values: Values, remembered: Callable[[], list[str]]
):
    """A link whose target is away, and a directory whose files nobody may look at, are no removals."""
    elsewhere, link = directory.with_name("elsewhere"), directory / "link.csv"
    _put(elsewhere, "target.csv", ["1,x"])
    link.symlink_to(elsewhere / "target.csv")
    _put(directory, "a.csv", ["2,y"])
    worker.create(name, _config(directory, name))
    assert sorted(_ids(values(name, at_least=2, within_s=60))) == [1, 2]
    elsewhere.rename(elsewhere.with_name("away"))
    for n, new in enumerate("bcd"):  # the directory is listed for each of them
        _put(directory, f"{new}.csv", [f"{3 + n},z"])
        assert sorted(_ids(values(name, at_least=3 + n, within_s=60))) == [*range(1, 4 + n)]
    assert remembered() == ["a.csv", "b.csv", "c.csv", "d.csv", "link.csv"]
    elsewhere.with_name("away").rename(elsewhere)
    directory.chmod(0o600)
    try:
        unseen = f"input.path={directory}: 5 done files, such as "
        assert eventually(lambda: unseen in worker.log_text() or remembered() == [], within_s=60)
    finally:
        directory.chmod(0o700)
    _put(directory, "e.csv", ["6,w"])
    assert sorted(_ids(values(name, at_least=6, within_s=60))) == [1, 2, 3, 4, 5, 6]
    assert remembered() == ["a.csv", "b.csv", "c.csv", "d.csv", "e.csv", "link.csv"]
    link.unlink()
    (directory / "a.csv").write_text("id,name\n7,another file\n")
    assert sorted(_ids(values(name, at_least=7, within_s=60))) == [1, 2, 3, 4, 5, 6, 7]
    assert eventually(lambda: remembered() == ["a.csv", "b.csv", "c.csv", "d.csv", "e.csv"], within_s=60)


def test_a_file_with_a_broken_row_is_set_aside_and_other_files_are_delivered(
    worker: Worker, name: str, directory: Path, values: Values
):
    _put(directory, "a.csv", ["1,x", "not a number,y", "3,z"])
    _put(directory, "b.csv", ["4,w"])
    worker.create(name, _config(directory, name))
    assert _ids(values(name, at_least=1, within_s=60)) == [4]
    assert eventually(lambda: (directory / ".failed" / "a.csv").exists(), within_s=60)
    assert "a.csv" in worker.log_text()
    assert "sets aside" in worker.log_text()
    worker.wait_for_tasks(name, "RUNNING")


def test_a_file_with_other_columns_is_set_aside_and_other_files_are_delivered(
    worker: Worker, name: str, directory: Path, values: Values
):
    (directory / "a.csv").write_text("another,header\n1,x\n")
    _put(directory, "b.csv", ["2,y"])
    (directory / "c.csv").touch()
    config = _config(directory, name, **{"key.field": "id"})
    del config["input.schema"]
    worker.create(name, config)
    assert _ids(values(name, at_least=1, within_s=60)) == ["2"]
    assert eventually(lambda: (directory / ".failed" / "a.csv").exists(), within_s=60)
    _put(directory, "d.csv", ["3,z"])
    assert _ids(values(name, at_least=2, within_s=60)) == ["2", "3"]
    worker.wait_for_tasks(name, "RUNNING")


def test_small_files_that_wait_together_share_transactions(
    worker: Worker, kafka: EmbeddedKafka, name: str, directory: Path, values: Values
):
    for n in range(40):
        _put(directory, f"{n:02}.csv", [f"{2 * n},x", f"{2 * n + 1},y"])
    worker.create(name, _config(directory, name))
    assert _ids(values(name, at_least=80, within_s=60)) == list(range(80))
    ends = Admin({"bootstrap.servers": kafka.bootstrap_servers}).offsets.ends([(name, 0)], read_committed=True)
    markers = ends[name, 0] - 80
    assert 1 <= markers < 10, "a marker ends each transaction"


def test_broken_rows_are_dropped_when_errors_are_tolerated(worker: Worker, name: str, directory: Path, values: Values):
    _put(directory, "a.csv", ["1,x", "not a number,y", "3,z"])
    worker.create(name, _config(directory, name, **{"errors.tolerance": "all"}))
    assert _ids(values(name, at_least=2, within_s=60)) == [1, 3]


def test_a_split_committed_in_parts_arrives_whole_and_in_order(
    worker: Worker, name: str, directory: Path, values: Values
):
    _put(directory, "a.csv", [f"{i},n" for i in range(1000)])
    worker.create(name, _config(directory, name, **{"split.rows.max": "300"}))
    assert _ids(values(name, at_least=1000, within_s=60)) == list(range(1000))


def test_a_part_read_with_other_settings_fails_the_task_until_its_offset_is_set(
    worker: Worker, name: str, directory: Path, values: Values
):
    _put(directory, "a.csv", ["1,x", "2,y", "3,z"])
    file = directory / "a.csv"
    os.utime(file, (1_700_000_000, 1_700_000_000))
    partition = {"file": f"file:{file}", "size": file.stat().st_size, "mtime": 1_700_000_000_000}
    part = {"partition": partition, "offset": {"rows": 1, "reading": "transforms.sql=00000000"}}
    assert worker.create(name, _config(directory, name), initial_offsets=[part]).status_code == 201
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=60)
    trace = failed["trace"]
    assert "1 rows of" in trace
    assert "transforms.sql changed" in trace
    worker.rest.put(f"/connectors/{name}/stop")
    assert eventually(lambda: worker.status(name)["connector"]["state"] == "STOPPED", within_s=60)
    offsets = f"/connectors/{name}/offsets"
    wrong = {"offsets": [{"partition": partition, "offset": {"done": "false"}}]}
    assert "'done'" in worker.rest.patch(offsets, json=wrong).json()["message"]
    right = {"offsets": [{"partition": partition, "offset": {"rows": 1}}]}
    assert worker.rest.patch(offsets, json=right).status_code == 200
    worker.rest.put(f"/connectors/{name}/resume")
    assert _ids(values(name, at_least=2, within_s=60)) == [2, 3]


def test_sql_projects_and_filters(worker: Worker, name: str, directory: Path, values: Values):
    _put(directory, "a.csv", ["1,x", "2,y", "3,z"])
    worker.create(name, _config(directory, name, **{"transforms.sql": "SELECT id * 10 AS id FROM split WHERE id > 1"}))
    assert _ids(values(name, at_least=2, within_s=60)) == [20, 30]


def test_sql_that_does_more_fails_the_task_and_names_the_key(worker: Worker, name: str, directory: Path):
    _put(directory, "a.csv", ["1,x"])
    worker.create(name, _config(directory, name, **{"transforms.sql": "SELECT count(*) AS n FROM split"}))
    (failed,) = worker.wait_for_tasks(name, "FAILED", within_s=60)
    assert "transforms.sql" in failed["trace"]


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system of its own that has no room left."""
    place = tmp_path / "full"
    place.mkdir()
    with small_disk(place):
        (place / "filler").write_bytes(b"x" * 60_000)
        yield place


def test_a_full_disk_at_the_finished_path_loses_nothing_and_is_tried_again(
    worker: Worker,
    name: str,
    directory: Path,
    values: Values,
    full_disk: Path,
    remembered: Callable[[], list[str]],
):
    """The file goes before the tombstone: while it cannot go, it is remembered."""
    _put(directory, "a.csv", [f"{i},{'n' * 100}" for i in range(1000)])
    more = {"finished.action": "move", "finished.path": str(full_disk)}
    worker.create(name, _config(directory, name, **more))
    assert _ids(values(name, at_least=1000, within_s=60)) == list(range(1000))
    told = f"cannot be moved to {full_disk}"
    assert eventually(lambda: told in worker.log_text(), within_s=60)
    assert (directory / "a.csv").exists()
    assert remembered() == ["a.csv"]
    (full_disk / "filler").unlink()
    enlarge(full_disk, "4m")
    assert eventually(lambda: (full_disk / "a.csv").exists() and not (directory / "a.csv").exists(), within_s=60)
    assert eventually(lambda: remembered() == [], within_s=60)
    assert len(values(name)) == 1000


def test_files_go_on_exactly_once_when_sparks_jvm_is_killed(worker: Worker, name: str, directory: Path, values: Values):
    _put(directory, "a.csv", ["0,x"])
    worker.create(name, _config(directory, name))
    assert _ids(values(name, at_least=1, within_s=60)) == [0]
    process = worker.process
    assert process is not None
    (jvm,) = (child for child in psutil.Process(process.pid).children() if child.name() == "java")
    _put(directory, "b.csv", [f"{n},y" for n in range(1, 20_000)])
    jvm.kill()
    _put(directory, "c.csv", [f"{n},z" for n in range(20_000, 20_010)])
    assert _ids(values(name, at_least=20_010, within_s=60)) == list(range(20_010))
    worker.wait_for_tasks(name, "RUNNING")
    assert len(values(name)) == 20_010
    eventually(worker.slots, within_s=60)  # for whoever has the worker next


def test_other_tasks_start_while_sparks_jvm_hangs_in_an_abandoned_split(
    worker: Worker, kafka: EmbeddedKafka, name: str, directory: Path, values: Values
):
    rows = 500_000
    _put(directory, "a.csv", [f"{n},{'x' * 100}" for n in range(rows)])
    worker.create(name, _config(directory, name))
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    eventually(lambda: admin.offsets.ends([(name, 0)], read_committed=False)[name, 0] > 0, within_s=60)
    process = worker.process
    assert process is not None
    (jvm,) = (child for child in psutil.Process(process.pid).children() if child.name() == "java")
    other, lines = f"{name}-other", directory.parent / "lines.txt"
    append(lines, ["one"])
    jvm.suspend()
    try:
        worker.rest.delete(f"/connectors/{name}")
        eventually(lambda: f"task {name}-0 did not stop within" in worker.log_text(), within_s=60)
        worker.create(other, file_source(lines, other))
        assert values(other, at_least=1, within_s=60) == ["one"]
    finally:
        jvm.resume()
        worker.rest.delete(f"/connectors/{other}")
    assert len(values(name)) in (0, rows), "all of it, where it was over before, or nothing"
