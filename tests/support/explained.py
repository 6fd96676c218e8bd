"""What a wait that was in vain says of the state of things, which is asked for only then."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def explained(states: Callable[[], object]) -> Iterator[None]:
    """Add `states()` to the text of an AssertionError."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}; {states()}") from error
