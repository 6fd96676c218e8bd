"""Records of all types compared with those that Debezium made of the same catalogs, rows and messages."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from support.debezium_records import Pair, Replay, recorded

MODES = ("default", "double", "string", "nanoseconds", "microseconds", "isostring")
DIFFERENT = {
    r"arrays: .*(\[|\.)(bits3?|moods|addresses|positives)\b": "arrays keep all items, and nulls among them",
    r"arrays: value\.payload\.after\.times$": "times in arrays keep their microseconds",
    r"by_index: (record|headers|key\.payload\.id|value\.payload\.(after|op))": "no delete of a key that is not known",
    r"transaction: value\.payload\.(data_collections|event_count)": "nor is it counted",
    r"defaults: .*a_(u005f)?generated\]": "an expression that generates a column is no default",
    r"defaults: .*a_(u005f)?text(\]\.default)?$": "a doubled quote in a default is one quote",
    r"extremes: value\.payload\.after\.(a_(u005f)?date|dates|timestamptzs)": "infinity as in the stream, everywhere",
    r"large: value\.payload\.after\.raw": "the placeholder, in Base64 modes, too",
    r"numbers: .*a_float4": "4-byte floats as Java 19 and newer print them",
    r"numbers: .*a_numeric_negative": "a negative scale is not 2,046 decimals",
    r"others: value\.payload\.after\.(a_(box|circle|line|path|polygon)|an_lseg)": "geometry as Postgres prints it",
    r"texts: value\.payload\.after\.a_(u005f)?name$": "columns of the type name are streamed",
    r"parameters(!|\.__debezium\.source\.column\.(type|length))": "types and lengths as in the stream, everywhere",
}
"""What differs from Debezium, by path, and why (decision 0120)."""


@lru_cache
def replay(mode: str) -> Replay:
    return Replay(recorded()[mode])


def differences(path: str, expected: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the innermost parts that differ, with their paths: members by name, fields of schemas by theirs."""
    if _is_object(expected) and _is_object(found):
        names = [name for name, _ in expected], [name for name, _ in found]
        if names[0] != names[1]:
            yield f"{path}!", *names
        theirs, ours = dict(expected), dict(found)
        for name in theirs.keys() & ours.keys():
            yield from differences(f"{path}.{name}", theirs[name], ours[name])
    elif path.endswith(".fields") and isinstance(found, list):
        named = [{dict(field)["field"]: field for field in fields} for fields in (expected, found)]
        if list(named[0]) != list(named[1]):
            yield f"{path}!", list(named[0]), list(named[1])
        for name in named[0].keys() & named[1].keys():
            yield from differences(f"{path}[{name}]", named[0][name], named[1][name])
    elif expected != found or type(expected) is not type(found):
        yield path, expected, found


def _is_object(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(pair, tuple) for pair in value)


@lru_cache
def compared(mode: str, part: str) -> tuple[list[str], frozenset[str]]:
    """Compare the records of a snapshot or a stream.

    Returns what differs beyond DIFFERENT, each path once, and the entries of DIFFERENT that were found.
    """
    unknown: dict[str, str] = {}
    used: set[str] = set()
    count = 0
    for pair in getattr(replay(mode), part)():
        count += 1
        for path, theirs, ours in _parts(pair):
            known = {one for one in DIFFERENT if re.search(one, path)}
            used |= known
            if not known:
                unknown.setdefault(path, f"{path}: Debezium {str(theirs)[:150]}, here {str(ours)[:150]} ({pair.what})")
    assert count > 20
    return sorted(unknown.values()), frozenset(used)


def _parts(pair: Pair) -> Iterator[tuple[str, Any, Any]]:
    if pair.expected is None or pair.found is None:
        yield f"{(pair.expected or pair.found or {})['topic']}: record", pair.expected, pair.found
        return
    for part in ("topic", "key", "value", "headers"):
        for path, theirs, ours in differences("", pair.expected[part], pair.found[part]):
            yield f"{pair.expected['topic']}: {part}{path}", theirs, ours


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_a_snapshot_are_debeziums_records(mode: str) -> None:
    assert compared(mode, "snapshot")[0] == []


@pytest.mark.parametrize("mode", MODES)
def test_changes_of_the_log_are_debeziums_records(mode: str) -> None:
    assert compared(mode, "stream")[0] == []


def test_each_known_difference_from_debezium_is_still_there() -> None:
    used = {one for mode in MODES for part in ("snapshot", "stream") for one in compared(mode, part)[1]}
    assert used == set(DIFFERENT)


@pytest.mark.parametrize("mode", MODES)
def test_columns_of_rows_become_the_same_json_as_single_rows(mode: str) -> None:
    for one, of_column in replay(mode).snapshot_columns():
        assert of_column == one
