"""Columns of records that were converted in parts, as the columns of one batch."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from fencepost.record import joined_member
from fencepost.task.delivery.outgoing import OutgoingColumns


def merged(parts: Sequence[OutgoingColumns]) -> OutgoingColumns:
    """Return the records of all parts in the order of their `sources`, which every part must have."""
    full = [part for part in parts if len(part)]
    if len(full) == 1:
        return full[0]
    sources = list(chain.from_iterable(part.sources or () for part in full))
    order = in_order(sources)
    is_ordered = order == list(range(len(order)))

    def column(name: str) -> Any:
        joined = joined_member(full, name, () if name == "headers" else None)
        if is_ordered or joined is None:
            return joined
        values = list(joined)
        return [values[index] for index in order]

    return OutgoingColumns(
        column("topics") or (),
        column("values") or (),
        column("keys"),
        column("partitions"),
        column("timestamps"),
        column("headers"),
        [sources[index] for index in order],
    )


def in_order(sources: Sequence[int]) -> list[int]:
    """Return the places of the sources from the first to the last."""
    return sorted(range(len(sources)), key=sources.__getitem__)
