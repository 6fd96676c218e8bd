"""Which entries of `allowed.paths` are faults: those that would allow any file."""

import pytest

from fencepost.builtin.provider.store import AllowedPaths
from fencepost.config import ConfigError


@pytest.mark.parametrize("value", [",", "/a,,/b", "secrets", "/a,.."])
def test_allowed_path_that_is_empty_or_relative_is_a_fault(value: str) -> None:
    with pytest.raises(ConfigError, match=r"allowed\.paths"):
        AllowedPaths({"allowed.paths": value})


def test_absolute_allowed_paths_are_accepted() -> None:
    assert AllowedPaths({"allowed.paths": "/a, /b"}).allowed_paths == ["/a", "/b"]
