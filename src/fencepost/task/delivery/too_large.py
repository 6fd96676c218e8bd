"""Finds the record that a producer refuses for its size."""

from collections.abc import Callable

from fencepost.task.delivery.outgoing import Outgoing, OutgoingBatches
from fencepost.transaction import ProduceError


def with_its_place(
    error: ProduceError, outgoing: Outgoing, most_bytes: int, origin: Callable[[int], str]
) -> ProduceError:
    """Return a refusal of records with the size and the origin of the record that is too large.

    `origin` describes the record with an index in `outgoing`. Other errors are returned unchanged.
    """
    if not error.is_refused or error.is_denied or isinstance(outgoing, OutgoingBatches):
        return error
    sizes = outgoing.sizes(len(outgoing))
    index = next((index for index, size in enumerate(sizes) if size > most_bytes), None)
    if index is None:
        return error
    return ProduceError(
        f"{error}. The record has {sizes[index]:,} bytes, and the limit is {most_bytes:,}: {origin(index)}",
        is_refused=True,
        is_batch_too_large=error.is_batch_too_large,
    )
