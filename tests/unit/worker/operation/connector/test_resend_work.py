"""With what a worker begins to resend: where it may send to, and as whom."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.topic_records import ResendProgressInfo, ResendRequest
from fencepost.config import java_regex
from fencepost.config.worker import WorkerConfig
from fencepost.task.sink.reader import ReadTopics
from fencepost.worker.operation.connector.dead_letters import DeadLetters, ResendTargets, ResendWork
from fencepost.worker.settings import WorkerSettings
from support.settings import SETTINGS

SINK = {
    "name": "c",
    "connector.class": "FileStreamSink",
    "topics.regex": ".*",
    "errors.deadletterqueue.topic.name": "dead",
}
RESEND = "errors.deadletterqueue.resend.topic.name"


class Asked:
    """A leader's `Requests` with one connector, and the `Resends` that it begins."""

    def __init__(self, config: dict[str, str | None]) -> None:
        self.config = config
        self.begun: list[ResendWork] = []

    def known(self, name: str) -> Any:
        return SimpleNamespace(connectors={name: self.config})

    def ensure_leading(self) -> None:
        pass

    @contextmanager
    def asking(self, stage: str) -> Iterator[None]:
        yield

    def begin(self, work: ResendWork) -> ResendProgressInfo:
        self.begun.append(work)
        return ResendProgressInfo("counting")


def begun(config: dict[str, str], request: ResendRequest = ResendRequest(), **worker: str) -> ResendWork:  # noqa: B008
    """Ask for the resend of a sink; return the work that was begun."""
    settings = WorkerSettings(WorkerConfig({**SETTINGS, **worker}), "http://w:1", "me")
    asked: Any = Asked({**SINK, **config})
    DeadLetters(asked, settings, asked).resend("c", request)
    [work] = asked.begun
    assert isinstance(work, ResendWork)
    return work


def test_nothing_is_resent_to_a_topic_with_another_use() -> None:
    work = begun({"offsets.storage.topic": "own-offsets"})
    own = [SETTINGS[f"{kind}.storage.topic"] for kind in ("config", "offset", "status")]
    closed = [*own, "own-offsets", "dead", "__consumer_offsets"]
    assert [work.reads(topic) for topic in [*closed, "orders"]] == [False] * len(closed) + [True]


@pytest.mark.parametrize("topic", ["dead", "__transaction_state", SETTINGS["status.storage.topic"]])
def test_topic_with_another_use_cannot_be_the_sinks_resend_topic(topic: str) -> None:
    with pytest.raises(BadRequestError, match=f"^{RESEND}={topic}: that topic has another use"):
        begun({RESEND: topic})


def test_invalid_topic_pattern_gives_no_rights() -> None:
    targets = ResendTargets(ReadTopics(("named",), "("), ())
    assert (targets.has("orders"), targets.has("named")) == (False, True)


def test_slow_topic_pattern_gives_no_rights_and_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(java_regex, "LONGEST_MATCH_S", 0.1)
    slow, tried = "ab" * 120 + "-c", []

    class Tried(ReadTopics):
        def has(self, topic: str) -> bool:
            tried.append(topic)
            return super().has(topic)

    targets = ResendTargets(Tried(("named",), "(?:ab|a|b|ba)*c"), ())
    names = (f"{slow}\n", slow, f"{slow}2", "named")  # the first is no name of a topic
    assert [targets.has(topic) for topic in names] == [False, False, False, True]
    assert tried == [slow]


def test_references_are_replaced_for_both_clients(tmp_path: Path) -> None:
    file = tmp_path / "secrets.properties"
    file.write_text("pw=hunter22\n")
    provider = {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    password = f"${{file:{file}:pw}}"
    keys = {f"{client}.override.sasl.password": password for client in ("producer", "consumer")}
    work = begun(keys, **provider)
    assert (work.producer_conf["sasl.password"], work.reader_conf["sasl.password"]) == ("hunter22", "hunter22")
