"""What an instance has made is closed, too, where it does not come to its start."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.api import FatalError, FencedError, RetriableError, SinkTask, SourceTask, StreamTask
from fencepost.task.channel.message import Admission, TaskReport
from fencepost.task.channel.task_spec import DeadLetterSpec, OutputSpec, TaskSpec
from fencepost.task.sink import runner as sink
from fencepost.task.sink.runner import SinkRunner
from fencepost.task.source import runner as source
from fencepost.task.source.runner import SourceRunner
from fencepost.task.start import runner
from fencepost.task.stream import runner as stream
from fencepost.task.stream.runner import StreamRunner

REFUSED = "Topic authorization failed: letters"
CONFIG = {"name": "c", "connector.class": "Own", "topics": "t"}


class Processor:
    """Converters and transforms, which count how often they are closed."""

    def __init__(self) -> None:
        self.closed = 0
        self.letters = self.tolerance = SimpleNamespace(logs=False)
        self.has_dead_letters = True
        self.report = None
        self.keeps = SimpleNamespace()

    def open(self) -> None: ...

    def close(self) -> None:
        self.closed += 1


def refuse(*_: object) -> None:
    raise FatalError(REFUSED)


def no_task(spec: TaskSpec) -> tuple[Any, Any]:
    return None, SimpleNamespace(initialize=lambda *_: None, stop=lambda: None)


def run(monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any], module: Any, **refused: object) -> tuple[int, str]:
    """Run a start that fails before it has run. Returns how often its processor was closed, and its trace."""
    closed, reports = reported(monkeypatch, kind, module, **refused)
    assert [report.state for report in reports] == ["FAILED"]
    return closed, reports[0].trace or ""


def reported(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any], module: Any, **refused: object
) -> tuple[int, list[TaskReport]]:
    """Run a start to its end. Returns how often its processor was closed, and its reports."""
    processor, reports = Processor(), list[TaskReport]()
    made = {"processor_of", "sink_processor_of", "stream_processor_of"} & set(vars(module))
    for name in made:
        monkeypatch.setattr(module, name, lambda *_: processor)
    for name, how in {"connector_of": no_task, "ensure_topics": lambda _: None, **refused}.items():
        monkeypatch.setattr(module, name, how)
    spec = TaskSpec(
        "c", 0, 1, "i", CONFIG, {}, output=OutputSpec({}, "offsets"), dead_letters=DeadLetterSpec(topic="letters")
    )
    life = kind(spec, lambda *_, **__: Admission(True), reports.append)
    monkeypatch.setattr(life, "_open_delivery", lambda: None, raising=False)
    monkeypatch.setattr(module, "member_of", lambda *_: SimpleNamespace(close=lambda: None), raising=False)
    monkeypatch.setattr(life, "_takeover", SimpleNamespace(positions=lambda *_: None), raising=False)
    life.run()
    return processor.closed, reports


@pytest.mark.parametrize(
    ("kind", "module", "what"),
    [
        (SourceRunner, source, "ensure_topics"),
        (StreamRunner, stream, "ensure_topics"),
        (SinkRunner, sink, "ensure_topics"),
        (SinkRunner, sink, "DeadLetters"),
    ],
)
def test_transforms_are_closed_when_dead_letters_are_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any], module: Any, what: str
) -> None:
    closed, trace = run(monkeypatch, kind, module, **{what: refuse})
    assert REFUSED in trace
    assert closed == 1


@pytest.mark.parametrize(
    ("kind", "module", "base"),
    [(SourceRunner, source, SourceTask), (StreamRunner, stream, StreamTask), (SinkRunner, sink, SinkTask)],
)
def test_a_task_fails_when_its_start_raises_a_retriable_error(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any], module: Any, base: Any
) -> None:
    """As in Kafka Connect. It would start again and again, and its status would say nothing of it."""
    starts: list[str] = []

    def start(_: object) -> None:
        starts.append("start")
        if len(starts) > 1:
            raise ValueError("started again")
        raise RetriableError("the feed is away")

    methods = dict.fromkeys(base.__abstractmethods__, lambda *_: None)
    task = type("Own", (base,), {**methods, "start": start, "stop": lambda _: None})()
    monkeypatch.setattr(module, "DeadLetters", lambda *_: SimpleNamespace(close=lambda: None), raising=False)
    closed, trace = run(monkeypatch, kind, module, connector_of=lambda _: (SimpleNamespace(), task))
    assert "start() raised RetriableError" in trace
    assert "the feed is away" in trace
    assert (closed, starts) == (1, ["start"])


@pytest.mark.parametrize(
    ("kind", "module", "base", "loop"),
    [
        (SourceRunner, source, SourceTask, "SourceLoop"),
        (StreamRunner, stream, StreamTask, "StreamLoop"),
        (SinkRunner, sink, SinkTask, "SinkLoop"),
    ],
)
def test_a_task_that_has_run_survives_a_retriable_error_of_its_next_start(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[..., Any], module: Any, base: Any, loop: str
) -> None:
    """Kafka Connect does not call `start` again when a membership is lost; here its database may be away then."""
    starts = iter([None, RetriableError("the feed is away"), RetriableError("the feed is away"), None])
    runs = iter([FencedError("the membership is lost"), FatalError("enough")])

    def raise_next(errors: Any) -> None:
        error = next(errors)
        if error is not None:
            raise error

    methods = dict.fromkeys(base.__abstractmethods__, lambda *_: None)
    task = type("Own", (base,), {**methods, "start": lambda _: raise_next(starts), "stop": lambda _: None})()
    monkeypatch.setattr(runner, "_PAUSES_S", (0.0,))
    monkeypatch.setattr(module, "DeadLetters", lambda *_: SimpleNamespace(close=lambda: None), raising=False)
    monkeypatch.setattr(module, loop, lambda *_, **__: SimpleNamespace(run=lambda *_: raise_next(runs)))
    _, reports = reported(monkeypatch, kind, module, connector_of=lambda _: (SimpleNamespace(), task))
    assert [report.state for report in reports] == ["RUNNING"] * 2 + ["FAILED"]
    assert (reports[1].trace or "").startswith("the feed is away; start() has raised it\n\nFailing since ")
    assert "enough" in str(reports[-1].trace)
