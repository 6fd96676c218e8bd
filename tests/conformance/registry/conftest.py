"""One real registry for the whole run, and one that answers what a test wants."""

from collections.abc import Iterator

import pytest

from support.schema_registry import shared_registry
from support.scripted_registry import ScriptedRegistry


@pytest.fixture(scope="session")
def registry_url() -> str:
    """The URL of a real registry; it is started for the first test that asks for it."""
    return shared_registry()


@pytest.fixture
def scripted() -> Iterator[ScriptedRegistry]:
    with ScriptedRegistry() as made:
        yield made
