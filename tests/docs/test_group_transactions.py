"""The program of `how-to/consume-transform-produce.md`, as two members that are killed: each record once."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from page import ROOT, blocks

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import CommittedReader, eventually
from fencepost.testing.verdict import judge
from support.log_writer import LogWriter

PARTITIONS, PART, KILLS = 4, 300, 3
WITHIN_S = 240


def program(kafka: EmbeddedKafka, path: Path, topic: str) -> Path:
    """Write the class `Shouting` of the page to a file, with a broker, a group and topics of its own."""
    [text] = [block.text for block in blocks("python") if "class Shouting" in block.text]
    assert block_page(text) == ROOT / "docs/how-to/consume-transform-produce.md"
    text = text.replace("localhost:9092", kafka.bootstrap_servers)
    # A member that is killed is missed after this time.
    text = text.replace('"group.id": GROUP', '"group.id": GROUP, "session.timeout.ms": 10000')
    for name in ("words", "shouted", "shouting"):
        text = text.replace(f'"{name}"', f'"{topic}-{name}"')
    file = path / "shouting.py"
    file.write_text(text)
    return file


def block_page(text: str) -> Path:
    return next(block.page for block in blocks("python") if block.text == text)


class Members:
    """The program under two names."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        with self._file.with_suffix(f".{name}.log").open("ab") as log:
            command = [sys.executable, str(self._file), name]
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self, name: str) -> None:
        self._running[name].kill()
        self._running[name].wait(60)

    def start_ended(self) -> None:
        """Start what has ended with an error again, as the page says: a member that was fenced, say."""
        for name, process in self._running.items():
            if process.poll() is not None:
                self.start(name)


@contextmanager
def members(file: Path) -> Iterator[Members]:
    made = Members(file)
    try:
        yield made
    finally:
        for name in made._running:
            made.kill(name)


@pytest.mark.drawn(8)
def test_each_record_is_shouted_once_when_members_are_killed(
    kafka: EmbeddedKafka, log_writer: LogWriter, tmp_path: Path, topic_name: str, seed: int
) -> None:
    drawn = random.Random(seed)
    topic = log_writer.topic(f"{topic_name}-words", partitions=PARTITIONS)
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(
        f"{topic_name}-shouted", partitions=1, replication=1
    )
    sent: dict[str, list[int]] = {str(partition): [] for partition in range(PARTITIONS)}

    def send() -> None:
        for partition, numbers in sent.items():
            new = range(len(numbers), len(numbers) + PART)
            log_writer.send(topic, [f"word {partition} {number}" for number in new], int(partition))
            numbers.extend(new)

    def found() -> list[tuple[str, int]]:
        with CommittedReader(kafka.bootstrap_servers, [f"{topic_name}-shouted"]) as reader:
            words = [(record.value or b"").decode().split() for record in reader.read_all(60)]
        assert {word for word, _, _ in words} <= {"WORD"}
        return [(partition, int(number)) for _, partition, number in words]

    for partition in range(PARTITIONS):
        log_writer.send(topic, ["deleted"] * 3, partition)
        log_writer.truncate(topic, 3, partition)
    send()
    with members(program(kafka, tmp_path, topic_name)) as running:

        def await_more_than(count: int) -> None:
            def is_reached() -> bool:
                running.start_ended()
                return len(found()) > count

            eventually(is_reached, within_s=WITHIN_S)

        running.start("a")
        running.start("b")
        for _ in range(KILLS):
            before = len(found())
            send()
            await_more_than(before)
            victim = drawn.choice("ab")
            running.kill(victim)
            send()
            running.start(victim)
        await_more_than(PARTITIONS * PART * (2 * KILLS + 1) - 1)
    verdict = judge(sent, found())
    assert verdict.is_clean, verdict
