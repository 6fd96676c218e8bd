"""Columns of records that were converted in parts, as the columns of one batch."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from fencepost.record import Repeated, joined_column
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
        columns = [getattr(part, name) for part in full]
        if all(each is None for each in columns):
            return None
        empty: Any = () if name == "headers" else None
        given = [Repeated(empty, len(part)) if each is None else each for part, each in zip(full, columns, strict=True)]
        if is_ordered:
            return joined_column(given)
        joined = list(chain.from_iterable(given))
        return [joined[index] for index in order]

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
