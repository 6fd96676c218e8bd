"""The options of a host's JVM."""

from pathlib import Path

import pytest

from fencepost.embedded.java import Java
from fencepost.java.start import jvm_options


@pytest.mark.parametrize(
    ("version", "trims"),
    [("17.0.11", False), ("17.0.12", True), ("18.0.9", False), ("21", False), ("21.0.4", True), ("23", True)],
)
def test_a_host_gives_memory_back_with_a_java_that_can(version: str, trims: bool) -> None:
    """An older one refuses to start."""
    assert any("TrimNativeHeap" in each for each in jvm_options(Java(Path("java"), version))) == trims
