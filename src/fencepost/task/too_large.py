"""Which record it is that a producer does not take for its size."""

from collections.abc import Callable

from fencepost.task.outgoing import Outgoing
from fencepost.transaction import ProduceError


def with_its_place(
    error: ProduceError, outgoing: Outgoing, most_bytes: int, origin: Callable[[int], str]
) -> ProduceError:
    """Return the refusal of records with the size of the one that is too large, and where it comes from.

    `origin` tells of the record with an index in `outgoing`. Other refusals stay as they are.
    """
    if not error.is_refused or error.is_denied or outgoing.whole is not None:
        return error
    sizes = outgoing.sizes(len(outgoing))
    index = next((index for index, size in enumerate(sizes) if size > most_bytes), None)
    if index is None:
        return error
    return ProduceError(
        f"{error}. The record has {sizes[index]:,} bytes, of {most_bytes:,} at most: {origin(index)}",
        is_refused=True,
        is_batch_too_large=error.is_batch_too_large,
    )
