"""Topics as files in an object store, by Hadoop's S3A: what is listed there is whole, and there once."""

import io
import json
import re
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from file_connector import Produce, created, ensure_exact, files_sink, settings_of_tests, with_country

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.long_form import IS_LONG
from support.object_store import SECRET, ObjectStore, object_store
from support.shared import shared
from support.worker import Worker

WRONG = "s3-not-the-one-of-tests"
LONG = pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long runs these")
COPIED = "a file is copied from where it was written aside"
KILLS = {
    "files are written aside": ("PUT", r"/data-1/_temporary/.*/part-00001[^/]+"),
    "a file written aside is renamed": ("PUT", r"/data-1/part-00001[^/]+"),
    "the list of files is written": ("PUT", r"/moves\.json"),
    "a file is shown": ("PUT", r"/[^/]+\+1\+[^/]+"),
    "a file is shown and not gone where it was": ("DELETE", r"/data-1/part-00001[^/]+"),
    COPIED: ("PUT", r"/[^/]+\+1\+[^/]+"),
}


@shared
def store() -> Iterator[ObjectStore]:
    """A store with the buckets `records` and `locked`."""
    with object_store() as running:
        running.make_bucket("records")
        running.make_bucket("locked")
        yield running


@shared
def worker(kafka: EmbeddedKafka, store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker whose Spark knows the store, and has wrong credentials for `locked`."""
    locked = "spark.hadoop.fs.s3a.bucket.locked."
    wrong = {f"{locked}access.key": "AKIAWRONG", f"{locked}secret.key": WRONG}
    settings = settings_of_tests(**store.spark_properties, **wrong)
    group, directory = f"store-{uuid.uuid4().hex[:6]}", tmp_path_factory.mktemp("worker")
    with Worker(kafka.bootstrap_servers, directory, settings, group=group) as running:
        yield running


@pytest.fixture
def where(name: str) -> str:
    return f"records/{name}"


@pytest.fixture
def partitions() -> int:
    return 3


@pytest.fixture
def value_of() -> Callable[[int], bytes]:
    return with_country


def in_bucket(path: str, topic: str, **settings: str) -> dict[str, str]:
    """Return the config of a files sink with a path in the store."""
    own = {"value__schema": "n INT, country STRING", "epoch__interval__ms": "300"}
    return files_sink(f"s3a://{path}", topic, **{**own, **settings})


def rows(store: ObjectStore, directory: str) -> list[tuple[int, int]]:
    """Return (partition, n) of all rows of Parquet files, file by file."""
    found = []
    for path in store.shown(directory):
        partition = int(path.rpartition("/")[2].split("+")[1])
        found += [(partition, n) for n in pq.ParquetFile(io.BytesIO(store.read(path))).read(["n"])["n"].to_pylist()]
    return found


def is_at(worker: Worker, name: str, offset: int) -> bool:
    return list(worker.sink_offsets(name).values()) == [offset] * 3


def trouble(worker: Worker, name: str) -> str:
    """Return the error in the task's status while the task is retrying."""
    task = next(iter(worker.status(name).get("tasks", [])), {})
    return str(task.get("trace", "")) if task.get("state") == "RUNNING" else ""


@pytest.fixture
def listing(store: ObjectStore, where: str) -> Iterator[list[list[tuple[int, int]]]]:
    """Lists and reads the directory all the time; gives what was seen each time, and checks it at the end."""
    seen: list[list[tuple[int, int]]] = []
    failed: list[Exception] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.wait(0.05):
            try:
                seen.append(rows(store, where))
            except Exception as error:  # a file that is half there, for one
                failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    yield seen
    is_over.set()
    thread.join(30)
    assert not failed, failed[0]
    assert all(count == 1 for each in seen for count in Counter(each).values()), "a reader has seen a record twice"
    lengths = [len(each) for each in seen]
    assert lengths == sorted(lengths), "a reader has seen records go"


@LONG
@pytest.mark.parametrize("moment", KILLS)
def test_e17_a_worker_that_is_killed_leaves_each_record_in_a_bucket_once(
    worker: Worker,
    store: ObjectStore,
    name: str,
    topic: str,
    produce: Produce,
    where: str,
    listing: list[list[tuple[int, int]]],
    tmp_path: Path,
    moment: str,
) -> None:
    """The store carries out requests of a client that was killed."""
    killed = threading.Event()
    at_method, at_path = KILLS[moment]

    def kill(method: str, path: str) -> None:
        if method == at_method and re.fullmatch(f"/{where}.*{at_path}", path) and not killed.is_set():
            killed.set()
            worker.kill()

    rolled = {"epoch.partition.rows.min": "100", "epoch.partition.wait.max.ms": "600000"}
    aside = {"aside.path": str(tmp_path / "aside")} if moment == COPIED else {}
    created(worker, name, in_bucket(where, topic, **rolled, **aside))
    with store.failing(kill):
        produce(1, 300)
        eventually(lambda: killed.is_set() and worker.process is None, within_s=120)
    worker.start()
    for first in range(301, 600, 60):  # 20 for each partition
        produce(first, first + 59)
    eventually(lambda: is_at(worker, name, 200), within_s=120)
    ensure_exact(rows(store, where), 600)
    assert len(store.shown(where)) == 6
    eventually(lambda: {path[-11:] for path in store.objects(f"{where}/.fencepost")} <= {"/moves.json"}, within_s=60)
    eventually(lambda: len(listing[-1]) == 600)


@pytest.mark.parametrize("is_copied", [False, pytest.param(True, marks=LONG)], ids=["renamed", "copied"])
def test_directories_are_made_of_columns_in_a_bucket(
    worker: Worker,
    store: ObjectStore,
    name: str,
    topic: str,
    produce: Produce,
    where: str,
    tmp_path: Path,
    is_copied: bool,
) -> None:
    produce(1, 450)
    aside = {"aside.path": str(tmp_path / "aside")} if is_copied else {}
    partitioned = {"partition.by": "country", "format": "json", "file.rows.max": "40"}
    created(worker, name, in_bucket(where, topic, **partitioned, **aside))
    eventually(lambda: is_at(worker, name, 150), within_s=180)
    assert {path.split("/")[2] for path in store.shown(where)} == {"country=DE", "country=FR", "country=x%2Fy z"}
    lines = [store.read(path).decode().splitlines() for path in store.shown(where)]
    assert all(0 < len(each) <= 40 for each in lines)
    assert sorted(json.loads(line)["n"] for each in lines for line in each) == list(range(1, 451))


@LONG
def test_a_sink_waits_for_a_missing_bucket(
    worker: Worker, store: ObjectStore, name: str, topic: str, produce: Produce
) -> None:
    produce(1, 60)
    bucket = f"later-{uuid.uuid4().hex[:8]}"
    created(worker, name, in_bucket(bucket, topic))
    eventually(lambda: "The specified bucket does not exist" in trouble(worker, name), within_s=180)
    store.make_bucket(bucket)
    eventually(lambda: is_at(worker, name, 20), within_s=180)
    ensure_exact(rows(store, bucket), 60)


@LONG
@pytest.mark.parametrize("code", ["SlowDown", "InternalError"])
def test_a_sink_waits_for_an_overloaded_or_failing_store(
    worker: Worker, store: ObjectStore, name: str, topic: str, produce: Produce, where: str, code: str
) -> None:
    def refuse(method: str, path: str) -> str | None:
        return code if method == "PUT" and re.match(f"/{where}/.*/part-", path) else None

    produce(1, 60)
    with store.failing(refuse):
        created(worker, name, in_bucket(where, topic))
        tries = re.compile(rf"task {name}-0 will retry: .*{code}, say the tests")
        eventually(lambda: len(tries.findall(worker.log_text())) > 5, within_s=90)  # so many would be too many
        assert "and retrying" in trouble(worker, name)
    eventually(lambda: is_at(worker, name, 20), within_s=180)
    ensure_exact(rows(store, where), 60)


def test_wrong_credentials_are_reported_without_secrets(
    worker: Worker, store: ObjectStore, name: str, topic: str, produce: Produce
) -> None:
    produce(1, 60)
    created(worker, name, in_bucket(f"locked/{name}", topic))
    eventually(lambda: "Status Code: 403" in trouble(worker, name), within_s=180)
    said = worker.log_text() + worker.rest.get("/connectors?expand=status&expand=info").text
    assert SECRET not in said
    assert WRONG not in said
