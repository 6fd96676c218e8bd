"""The seed of a test that uses random values."""

import os
import secrets

GIVEN = "FENCEPOST_CHAOS_SEED"


def new_seed() -> int:
    """Return another seed each time, or the one that `FENCEPOST_CHAOS_SEED` repeats. It is printed."""
    given = os.environ.get(GIVEN)
    seed = int(given) if given else secrets.randbelow(1_000_000)
    print(f"\n{GIVEN}={seed}")
    return seed
