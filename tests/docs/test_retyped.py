"""README, tutorials and how-tos as a reader types them, on one `fencepost dev`: what follows from what does follow.

The blocks of the pages run as they stand there, with other ports and another directory than `/tmp`.
"""

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow.dataset as ds
import pytest
from bench.postgres import NoPostgresError, Postgres, running_postgres
from page import ROOT, Block, blocks

from fencepost.testing import CommittedReader, eventually
from support.installation import build, install_as_typed
from support.long_form import IS_LONG
from support.quick import spark_properties
from support.worker import free_port

README = ROOT / "README.md"
FIRST_CONNECTOR, FIRST_PIPELINE = (ROOT / f"docs/tutorial/first-{name}.md" for name in ("connector", "pipeline"))
HOW_TO = ROOT / "docs/how-to"
JAVA = HOW_TO / "run-java-connectors.md"
_ABOVE_INFO = re.compile(r"\[(warning|error|critical)|Traceback")
_SETTINGS = {
    "offset.flush.interval.ms": "1000",  # a minute for sinks to write what they have, by default
    "task.shutdown.graceful.timeout.ms": "120000",  # a task of a busy machine is not abandoned, which is a warning
}
_WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]
_WITHIN_S = 240  # for a Spark and a Kafka to start, beside other tests


class Seen:
    """The values in topics so far."""

    def __init__(self, reader: CommittedReader) -> None:
        self._reader = reader

    def __getitem__(self, topic: str) -> list[str]:
        return [(one.value or b"").decode() for one in self._reader.seen_of(topic)]


class Reader:
    """Somebody who types what pages show."""

    def __init__(self, directory: Path, postgres: Postgres | None, python: Path) -> None:
        self.directory = directory
        self.postgres = postgres
        self.python = python
        self.port, self.kafka_port = free_port(), free_port()
        self.rest = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=100)
        self._typed = {
            "/tmp/": f"{directory}/",
            ".venv/bin/fencepost dev": str(directory / "dev"),
            ".venv/bin/fencepost": f"{python} -m fencepost.cli.main",
            ".venv/bin/python": str(python),
            "python3": str(python),
            ":8083": f":{self.port}",
            ":9092": f":{self.kafka_port}",
            **({"5432": str(postgres.port)} if postgres else {}),
        }
        self._pattern = re.compile("|".join(map(re.escape, self._typed)))
        settings = [f"--set={key}={value}" for key, value in {**spark_properties(), **_SETTINGS}.items()]
        command = [str(python), "-m", "fencepost.cli.main", "dev", f"--port={self.port}"]
        words = shlex.join([*command, f"--kafka-port={self.kafka_port}", *settings])
        (directory / "dev").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (directory / "dev").chmod(0o755)

    def text(self, page: Path, language: str, beginning: str, *changes: tuple[str, str]) -> str:
        """Return the block of a page with a text, with what differs here."""
        [found] = [block for block in blocks(language) if block.page == page and beginning in block.text]
        text = self._here(found)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        return text

    def types(self, page: Path, beginning: str, *changes: tuple[str, str]) -> str:
        """Run a block of shell commands, and return what they print."""
        text = self.text(page, "bash", beginning, *changes)
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", text], cwd=self.directory, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def saves(self, page: Path, beginning: str, name: str) -> None:
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.text(page, "python", beginning))

    def creates(self, page: Path, beginning: str, name: str = "") -> str:
        """Send a config that a page shows, under the name that it has there, or another one."""
        body = json.loads(self.text(page, "json", beginning))
        name = name or body["name"]
        answer = self.rest.put(f"/connectors/{name}/config", json=body.get("config", body))
        assert answer.status_code == 201, answer.text
        return name

    @contextmanager
    def starts_dev(self, page: Path, *changes: tuple[str, str], is_first: bool) -> Iterator[subprocess.Popen[bytes]]:
        """Run the command of a page, which keeps Kafka's data, and writes the process id to a file."""
        [text] = re.findall(r"^sh -c .*$", self.text(page, "bash", "exec .venv/bin/fencepost dev", *changes), re.M)
        with self.log(is_first=is_first).open("wb") as out:
            process = subprocess.Popen(
                shlex.split(text), cwd=self.directory, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            eventually(self._is_healthy, within_s=_WITHIN_S)
            assert (self.directory / "fencepost.pid").read_text() == f"{process.pid}\n"
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(120)

    def log(self, *, is_first: bool) -> Path:
        return self.directory / ("first.log" if is_first else "second.log")

    def ensure_running(self, *names: str) -> None:
        """Wait until connectors and all their tasks run."""
        eventually(lambda: [self.states(name) for name in names if self.states(name) != {"RUNNING"}] == [],
                   within_s=_WITHIN_S)  # fmt: skip

    @contextmanager
    def looks(self, *topics: str) -> Iterator["Seen"]:
        """Yield what is in topics so far."""
        with CommittedReader(f"127.0.0.1:{self.kafka_port}", topics) as reader:
            yield Seen(reader)

    @contextmanager
    def follows(self, page: Path, beginning: str) -> Iterator[list[str]]:
        """Run the command of a page that follows a topic; yields the values that it has printed so far."""
        command = shlex.split(_last_line(self.text(page, "bash", beginning)))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        values: list[str] = []

        def follow() -> None:
            for line in process.stdout or ():
                values.extend(re.findall("^  value  (.*)$", line))

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield values
        finally:
            process.kill()
            process.wait()
            thread.join()

    def _here(self, block: Block) -> str:
        return self._pattern.sub(lambda found: self._typed[found[0]], block.text)

    def _is_healthy(self) -> bool:
        try:
            return self.rest.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def states(self, name: str) -> set[str]:
        status: dict[str, Any] = self.rest.get(f"/connectors/{name}/status").json()
        tasks = [task["state"] for task in status.get("tasks", ())]
        return {*tasks, status.get("connector", {}).get("state", "missing")} if tasks else {"no tasks"}


@pytest.fixture
def postgres() -> Iterator[Postgres | None]:
    """The reader's database; None where none is installed, though not in `make chaos`."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        try:
            server = stack.enter_context(running_postgres(Path(directory)))
        except NoPostgresError:
            if IS_LONG:
                raise
            server = None
        yield server


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The reader's Python: in `make chaos` one that has the wheel and nothing else, else that of the tests."""
    if not IS_LONG:
        return Path(sys.executable)
    _, wheel = build(tmp_path / "dist")
    [text] = [block.text for block in blocks("bash") if block.page == README and "make dist" in block.text]
    install_as_typed(text, wheel.parent, tmp_path)
    return tmp_path / "pipelines/.venv/bin/python"


@pytest.fixture
def reader(
    tmp_path: Path, postgres: Postgres | None, python: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # where plug-ins are installed
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    made = Reader(tmp_path, postgres, python)
    if IS_LONG:
        monkeypatch.delenv("PYTHONPATH", raising=False)  # the reader has what is installed, and no source tree
    monkeypatch.setenv("FENCEPOST_URL", str(made.rest.base_url))
    yield made
    made.rest.close()


@pytest.mark.drawn(8)  # or the quick start from the wheel
def test_examples_of_readme_and_tutorials_feed_each_other_and_survive_a_kill(reader: Reader) -> None:
    _writes_plugins(reader)
    _installs_debezium(reader)
    with reader.starts_dev(FIRST_PIPELINE, is_first=True) as first:
        _readme(reader)
        _tutorials(reader)
        reader.ensure_running("lines", "words", "words-files")
        _copies_a_table(reader)
        words = reader.text(FIRST_PIPELINE, "bash", "kill -9")
        assert "word%d" in words
        assert words.endswith(reader.text(JAVA, "bash", "kill -9"))
        reader.types(
            FIRST_PIPELINE, "kill -9", ("word%d", "more%d"), ("sleep 0.02", "sleep 0.005"), ("sleep 3", "sleep 1")
        )
        assert first.wait(_WITHIN_S) == -signal.SIGKILL
        _changes_the_table(reader)
    of_tutorial = ("--dir", "--set plugin.path=plugins --dir")  # its connectors go on beside the Java one
    with reader.starts_dev(JAVA, of_tutorial, is_first=False) as second:
        (reader.directory / "lines.txt").open("a").write("four\n")
        _sees_what_the_pages_say(reader)
        _sees_the_table_once(reader)
        _moves_offsets(reader)
        _audits(reader)
        _manages_connectors(reader)
        _ends(reader)
        _stops_all_but(reader, "lines")  # several tasks at once may take longer to stop than they get
        begins = reader.log(is_first=False).stat().st_size
        os.killpg(second.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
        assert second.wait(_WITHIN_S) == 0
    ending = reader.log(is_first=False).read_bytes()[begins:].decode()
    assert _ABOVE_INFO.search(ending) is None, ending
    if not reader.postgres:
        pytest.skip("all pages were typed but run-java-connectors.md: it needs Postgres, apt-get install -y postgresql")


def _writes_plugins(reader: Reader) -> None:
    reader.saves(README, "class CounterTask", "plugins/counter.py")
    reader.saves(FIRST_PIPELINE, "class WordListTask", "plugins/wordlist.py")
    reader.saves(HOW_TO / "write-a-stream-task.md", "class LongWordsTask", "plugins/longwords.py")
    reader.saves(HOW_TO / "write-a-sink.md", "class LogSinkTask", "plugins/logsink.py")
    reader.saves(HOW_TO / "write-a-sink.md", "class TableSinkTask", "plugins/tablesink.py")
    reader.types(FIRST_CONNECTOR, "new connector")
    reader.saves(FIRST_CONNECTOR, "class ShopOrdersTask", "shop-orders/src/shop_orders/connector.py")
    (reader.directory / "plugins/shop_orders").symlink_to(reader.directory / "shop-orders/src/shop_orders")
    reader.types(FIRST_PIPELINE, "jumps over", (reader.text(FIRST_PIPELINE, "bash", "jumps over").splitlines()[-1], ""))


def _installs_debezium(reader: Reader) -> None:
    if reader.postgres:
        printed = [line.split() for line in reader.types(JAVA, "plugin install io.debezium").splitlines()]
        assert ["source", "io.debezium.connector.postgresql.PostgresConnector", "3.6.1.Final"] in printed


def _copies_a_table(reader: Reader) -> None:
    """The snapshot is committed when this returns: one that is cut short begins again."""
    if reader.postgres:
        reader.types(JAVA, "CREATE TABLE")
        created = json.loads(reader.types(JAVA, "PostgresConnector"))
        assert created["name"] == "shop", created
        with CommittedReader(f"127.0.0.1:{reader.kafka_port}", ["shop.public.orders"]) as topic:
            eventually(lambda: len(topic.seen()) >= 2, within_s=_WITHIN_S)


def _changes_the_table(reader: Reader) -> None:
    if reader.postgres:
        reader.types(JAVA, "UPDATE orders")


def _sees_the_table_once(reader: Reader) -> None:
    if reader.postgres:
        shown = [line for line in reader.text(JAVA, "", '"item":"tea"').splitlines() if line]
        with reader.looks("shop.public.orders") as seen:
            eventually(lambda: len(seen["shop.public.orders"]) >= 3, within_s=_WITHIN_S)
            assert seen["shop.public.orders"] == [*shown, shown[0].replace("320", "340")]
        reader.types(JAVA, "-X DELETE")
        slots = "SELECT active FROM pg_replication_slots"
        eventually(lambda: reader.postgres.sql(slots) == "f\n", within_s=_WITHIN_S)  # type: ignore[union-attr]
        reader.types(JAVA, "pg_drop_replication_slot")


def _readme(reader: Reader) -> None:
    status = reader.types(README, "printf 'one")
    assert '"lines"' in status
    with reader.follows(README, "topic read lines") as values:
        eventually(lambda: values == ["one", "two", "three"], within_s=_WITHIN_S)
    reader.types(README, '{"connector.class": "Counter"}')
    reader.types(README, "first.csv")
    reader.creates(README, '"name": "people",')
    reader.ensure_running("lines", "counter")
    eventually(
        lambda: "people" in reader.rest.get("/connectors/people/topics").text.partition(":")[2], within_s=_WITHIN_S
    )
    reader.creates(README, '"people-files"')
    reader.creates(README, '"grown-ups"')


def _tutorials(reader: Reader) -> None:
    refused = reader.types(FIRST_PIPELINE, '"batch.size": "0"')
    assert "batch.size" in refused
    assert reader.rest.get("/connectors/words").status_code == 404
    reader.types(FIRST_PIPELINE, '"tasks.max": "2"')
    reader.ensure_running("words")
    assert len(reader.rest.get("/connectors/words/tasks").json()) == 2
    reader.types(FIRST_PIPELINE, "words-files/config")
    reader.creates(HOW_TO / "write-a-stream-task.md", '"LongWords"', "long-words")
    reader.creates(HOW_TO / "write-a-sink.md", '"LogSink"', "words-log")
    reader.creates(HOW_TO / "write-a-sink.md", '"TableSink"', "words-table")
    creating = reader.text(FIRST_CONNECTOR, "bash", "CREATE TABLE")
    reader.types(FIRST_CONNECTOR, "CREATE TABLE", (_last_line(creating), ""))
    reader.types(
        FIRST_CONNECTOR, '"ShopOrders"', (_last_line(reader.text(FIRST_CONNECTOR, "bash", '"ShopOrders"')), "")
    )


def _sees_what_the_pages_say(reader: Reader) -> None:
    with reader.looks("lines", "numbers", "people", "grown-ups", "words", "long-words", "orders") as seen:
        eventually(lambda: len(seen["lines"]) >= 4, within_s=_WITHIN_S)
        assert seen["lines"] == ["one", "two", "three", "four"]
        eventually(lambda: len(seen["grown-ups"]) >= 2, within_s=_WITHIN_S)
        assert seen["grown-ups"] == ['{"name":"Ada"}', '{"name":"Grace"}']
        eventually(lambda: len(seen["people"]) >= 3, within_s=_WITHIN_S)
        assert len(seen["people"]) == 3
        eventually(lambda: len(seen["orders"]) >= 100, within_s=_WITHIN_S)
        orders = [json.loads(order) for order in seen["orders"]]
        assert [order["id"] for order in orders] == list(range(1, 101))
        now_ms = time.time() * 1000  # Kafka deletes what is a week old, at the latest a few minutes after its start
        assert all(order["at"] > now_ms - 3_600_000 for order in orders)
        eventually(lambda: len(seen["words"]) >= 309, within_s=_WITHIN_S)
        words = Counter(json.loads(word)["word"] for word in seen["words"])
        assert words == Counter([*_WORDS, *map("more{}".format, range(1, 301))])
        eventually(lambda: len(seen["long-words"]) >= 303, within_s=_WITHIN_S)
        assert {"QUICK", "BROWN", "JUMPS"} <= set(seen["long-words"])
        eventually(lambda: seen["numbers"], within_s=_WITHIN_S)
        assert seen["numbers"][0] == '{"schema":null,"payload":{"n":1}}'
        numbers = [json.loads(number)["payload"]["n"] for number in seen["numbers"]]
        assert numbers == list(range(1, len(numbers) + 1))
    _sees_files_and_tables(reader)


def _sees_files_and_tables(reader: Reader) -> None:
    def of_files() -> list[str]:
        files = reader.directory.glob("words/*.json")
        return [json.loads(line)["word"] for file in files for line in file.read_text().splitlines()]

    eventually(lambda: len(of_files()) >= 309, within_s=_WITHIN_S)
    assert reader.types(FIRST_PIPELINE, "grep -o 'more") == "300\n"

    def people() -> list[str]:
        rows = ds.dataset(reader.directory / "people-files").to_table().to_pylist()
        return sorted(row["name"] for row in rows)

    eventually(lambda: len(people()) >= 3, within_s=_WITHIN_S)
    assert people() == ["Ada", "Grace", "Tim"]

    def in_table() -> int:
        with closing(sqlite3.connect(reader.directory / "words.db")) as db:
            return int(db.execute("SELECT count(*) FROM words").fetchone()[0])

    eventually(lambda: in_table() >= 309, within_s=_WITHIN_S)
    assert in_table() == 309
    log = reader.directory / "words.log"
    eventually(lambda: len(set(log.read_text().splitlines())) >= 309, within_s=_WITHIN_S)


def _moves_offsets(reader: Reader) -> None:
    """The page goes on with the connector of the quick start."""
    page = HOW_TO / "move-offsets.md"
    shown = json.loads(reader.types(page, "offsets show lines"))
    [offset] = [entry["offset"] for entry in shown["offsets"]]
    assert offset == json.loads(reader.text(page, "json", "fingerprint"))["offsets"][0]["offset"]
    reader.types(page, "offsets move lines")
    with CommittedReader(f"127.0.0.1:{reader.kafka_port}", ["lines"]) as topic:
        eventually(lambda: len(topic.seen()) >= 8, within_s=_WITHIN_S)
        assert [one.value for one in topic.seen()] == [b"one", b"two", b"three", b"four"] * 2


def _audits(reader: Reader) -> None:
    page = HOW_TO / "audit.md"
    reader.types(page, '"name": "audited"')
    with CommittedReader(f"127.0.0.1:{reader.kafka_port}", ["audited"]) as topic:
        eventually(lambda: len(topic.seen()) >= 3, within_s=_WITHIN_S)
    assert reader.types(page, "audit audited") == reader.text(page, "text", "NOT IN LEDGER")


def _manages_connectors(reader: Reader) -> None:
    page = HOW_TO / "manage-connectors.md"
    assert "local" in reader.types(page, "context add")
    reader.types(page, '"name": "more-lines"')
    reader.ensure_running("more-lines")
    assert reader.types(page, "--diff ||").startswith(reader.text(page, "text", "~ more-lines"))
    assert "more-lines: a source" in reader.types(page, "describe")
    assert "To do: 0 to create, 0 to change, 0 to delete" in reader.types(page, "export --dir")
    reader.types(page, "restart --failed")
    assert reader.rest.get("/connectors/more-lines").status_code == 404


def _ends(reader: Reader) -> None:
    change = reader.text(FIRST_PIPELINE, "bash", "RegexRouter")
    deleting = change[change.index("curl -s -X DELETE") :]
    reader.types(FIRST_PIPELINE, "RegexRouter", (deleting, ""))
    with CommittedReader(f"127.0.0.1:{reader.kafka_port}", ["all-words"]) as topic:

        def sees_another_word() -> bool:
            """The task with the config before reads what is written until it is replaced."""
            (reader.directory / "a.txt").open("a").write("another ")
            return bool(topic.seen())

        eventually(sees_another_word, within_s=_WITHIN_S)
        assert {json.loads(one.value or b"")["word"] for one in topic.seen()} == {"another"}
    reader.types(FIRST_PIPELINE, "RegexRouter", (change[: change.index("curl -s -X DELETE")], ""))
    assert reader.rest.get("/connectors/words").status_code == 404


def _stops_all_but(reader: Reader, kept: str) -> None:
    for name in reader.rest.get("/connectors").json():
        if name != kept:
            reader.rest.put(f"/connectors/{name}/stop")
            eventually(lambda name=name: reader.states(name) == {"no tasks"}, within_s=_WITHIN_S)  # type: ignore[misc]


def _last_line(text: str) -> str:
    return text.rstrip("\n").splitlines()[-1]
