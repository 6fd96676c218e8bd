"""What the tests with faults share."""

import os
import secrets

import pytest


@pytest.fixture
def seed() -> int:
    """`FENCEPOST_CHAOS_SEED` repeats a plan; else every run has its own."""
    given = os.environ.get("FENCEPOST_CHAOS_SEED")
    return int(given) if given else secrets.randbelow(1_000_000)
