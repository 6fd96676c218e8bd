"""Calls of the client library that may end the process are not made."""

from pathlib import Path

import pytest

import fencepost

_SOURCES = sorted(Path(fencepost.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("call", ["list_consumer_group_offsets(", "ListConsumerGroupOffsets("])
def test_client_library_is_never_asked_for_the_offsets_of_a_group(call: str) -> None:
    """librdkafka's issue 5040: a coordinator that is still starting up ends the calling process by SIGSEGV."""
    assert len(_SOURCES) > 200
    assert [file.name for file in _SOURCES if call in file.read_text()] == []
