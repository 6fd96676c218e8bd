"""What slots change in their process is taken back after each test: other tests run in the same one."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _own_recursion_limit() -> Iterator[None]:
    usual = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(usual)
