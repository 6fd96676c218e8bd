"""How two deliveries differ, in words."""

from collections.abc import Mapping, Sequence


def difference(
    expected: Mapping[bytes, Sequence[object]], found: Mapping[bytes, Sequence[object]], *, is_all: bool
) -> str | None:
    """Return what is wrong with the records found, by source partition; None if nothing is.

    Unless `is_all`, both are beginnings: the shorter one of each source partition says how far they are compared.
    """
    if expected and not found:
        return "gives nothing"
    for partition in {**expected, **found}:
        fault = _of_lane(expected.get(partition, ()), found.get(partition, ()), is_all=is_all)
        if fault is not None:
            return f"{fault} (source partition {partition.decode()})"
    return None


def difference_of_all(
    expected: Mapping[bytes, Sequence[object]], found: Mapping[bytes, Sequence[object]]
) -> str | None:
    """Return what is wrong with the records found, whatever their source partitions are now; None if nothing is."""
    left = [one for lane in found.values() for one in lane]
    for one in (one for lane in expected.values() for one in lane):
        if one not in left:
            return f"skips {one!r}"
        left.remove(one)
    again = next((one for one in left if any(one in lane for lane in expected.values())), None)
    return None if again is None else f"gives {again!r} again"


def _of_lane(expected: Sequence[object], found: Sequence[object], *, is_all: bool) -> str | None:
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return _first_difference(one, other, expected, found)
    if not is_all:
        return None
    if len(found) < len(expected):
        return f"skips {expected[len(found)]!r}"
    return f"gives {found[len(expected)]!r} again, or too much" if len(found) > len(expected) else None


def _first_difference(one: object, other: object, expected: Sequence[object], found: Sequence[object]) -> str:
    if one not in found:
        return f"skips {one!r}"
    if other not in expected:
        return f"gives {other!r} again, or too much"
    return f"gives {other!r} where {one!r} has its turn"
