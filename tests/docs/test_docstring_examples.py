"""Everything that authors import has a docstring with an example, and the examples run."""

import doctest
import importlib
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin

_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_WITHOUT_DOCSTRING = {"Record"}  # a type variable, which is shown in the docstrings of Transform and RecordError
_NEEDS_KAFKA = {"CommittedReader", "Pipeline", "TestingSource"}
_NEEDS_SPARK = {"DataFrameSinkConformance", "DataFrameSourceConformance"}  # tests/integration/spark


def _exported() -> Iterator[tuple[str, Any]]:
    for module in ("fencepost.api", "fencepost.testing"):
        exported = importlib.import_module(module)
        assert len(set(exported.__all__)) == len(exported.__all__)
        for name in exported.__all__:
            yield name, getattr(exported, name)


def _docstring(name: str, exported: Any) -> str:
    """Return what `help` shows; for a value, such as STRING or HIGH, that of its type."""
    described = exported if isinstance(exported, type) or callable(exported) else type(exported)
    return described.__doc__ or ""


def run_example(name: str, text: str, **known: Any) -> None:
    test = doctest.DocTestParser().get_doctest(text, {"__name__": name, **known}, name, None, 0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=_FLAGS).run(test, out=said.append)
    assert not result.failed, "".join(said)


_ALL = dict(_exported())
_DOCUMENTED = sorted(_ALL.keys() - _WITHOUT_DOCSTRING)
_STAGES = {"POLL", "COMMIT", "UPDATE_OFFSETS"}  # texts


@pytest.mark.parametrize("name", sorted(set(_DOCUMENTED) - _NEEDS_KAFKA - _NEEDS_SPARK - _STAGES))
def test_the_example_in_the_docstring_runs(name: str) -> None:
    text = _docstring(name, _ALL[name])
    assert ">>> " in text, f"{name} has no example in its docstring"
    run_example(name, text)


@pytest.mark.parametrize("name", sorted(_NEEDS_KAFKA))
@pytest.mark.drawn(8)
def test_the_example_in_the_docstring_runs_on_a_real_kafka(
    name: str, kafka: EmbeddedKafka, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an example would start a Kafka it gets the one that all tests share, and a topic that no other test has."""
    monkeypatch.setattr("fencepost.testing.pipeline.EmbeddedKafka", lambda: nullcontext(kafka))
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.ensure("lines", partitions=1, replication=1)
    text = _docstring(name, _ALL[name]).replace('"n"', f'"{topic_name}"')
    run_example(name, text, bootstrap=kafka.bootstrap_servers)


def test_exports_of_the_testing_package_are_named_in_its_docstring() -> None:
    import fencepost.testing

    named = {"SourceConformance", "SinkConformance", "StreamConformance", "Pipeline", "TestingSource", "poll_once"}
    assert named <= set(fencepost.testing.__all__)
    assert named <= {word.strip("`,;:.") for word in (fencepost.testing.__doc__ or "").split()}
