"""Fixtures of every test. A broker is started only for a test that asks for one."""

import itertools
import os
import re
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.secret import known
from support.drawn import DRAW, draw, keep_drawn, summary, take_note
from support.log_writer import LogWriter
from support.quick import LENT, LentKafka, quick_kafka
from support.seed import new_seed

_numbers = itertools.count(1)

# Hundreds of Python processes are started here: without their compiled modules each would take a second more. And
# compiling the tests takes three quarters of the time in which they are collected.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Where these are set, pytest draws up the whole difference of two values that should be equal: for minutes, where they
# are batches of 200 KB, so that a test that has failed seems to stand still.
for _name in ("CI", "BUILD_NUMBER"):
    os.environ.pop(_name, None)

# What lets a test see a member expire within seconds, and a broker that is slow, as nobody kills it, stay the leader.
_BROKER_PROPERTIES = {
    "group.min.session.timeout.ms": "1000",
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "2000",
    # How often a broker looks for transactions that are open for too long.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # How often it looks for what can be compacted.
    "log.cleaner.backoff.ms": "500",
}
_START_S = 240  # a second or two where nothing else runs; tests share the machine


def pytest_configure() -> None:
    draw()


def pytest_report_header() -> str:
    return f"{DRAW}={os.environ[DRAW]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    keep_drawn(config, items)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    take_note(node.config, getattr(node, "workeroutput", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for line in summary(config):
        terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out files from both ends where files are handed out."""
    if config.getoption("dist") != "loadfile":
        return None
    from support.both_ends import FromBothEnds

    return FromBothEnds(config, log)


@pytest.fixture(autouse=True)
def _no_secrets_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide in the texts of a test only what that test has looked up."""
    monkeypatch.setattr(known._secrets, "_texts", {})
    monkeypatch.setattr(known._secrets, "_held", Counter())
    monkeypatch.setattr(known._secrets, "_patterns", [])


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """One real broker for the session (each xdist process has its own)."""
    lent = os.environ.get(LENT)
    if lent:
        yield LentKafka(lent)  # type: ignore[misc]
        return
    with quick_kafka(properties=_BROKER_PROPERTIES, start_timeout_s=_START_S) as broker:
        yield broker


@pytest.fixture(scope="session")
def log_writer(kafka: EmbeddedKafka) -> Iterator[LogWriter]:
    """Fills topics of that broker."""
    made = LogWriter(kafka.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses; the topic is not created."""
    words = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:60]
    return f"{words}-{next(_numbers)}-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def seed() -> int:
    """`FENCEPOST_CHAOS_SEED` repeats what was drawn; otherwise each test draws anew. A failure shows the seed."""
    return new_seed()
