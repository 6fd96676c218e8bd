"""Fixtures that the tests of a directory share until its last test: an idle worker costs processor time."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest


def shared(make: Callable[..., Iterator[Any]]) -> Any:
    """Make a fixture of what is begun by the first test that asks for it, and ended when a directory's tests are done.

    `make` is as for `pytest.fixture`, and takes fixtures of the session, or shared ones. Where a process comes back to
    the directory later, it is begun again.
    """
    live: list[Any] = []

    def get(request: pytest.FixtureRequest, **fixtures: Any) -> Any:
        if not live:
            stack = contextlib.ExitStack()
            live.append(stack.enter_context(contextlib.contextmanager(make)(**fixtures)))
            stack.callback(live.clear)
            request.node.parent.addfinalizer(stack.close)
        return live[0]

    asked = inspect.signature(make).parameters.values()
    request = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    get.__signature__ = inspect.Signature([request, *asked])  # type: ignore[attr-defined]
    get.__doc__ = make.__doc__
    return pytest.fixture(scope="module", name=make.__name__)(get)
