"""Whether two answers to the same request are the same, for a client."""

import json
import re
from typing import Any

from accepted import KEYS_DECLARED_BY_US, OURS_ALONE, THEIRS_ALONE, WORDED_BY_LIBRARIES, accepted
from masking import masked
from replay import Exchange

_COUNTED = re.compile(r"Connector configuration is invalid and contains the following (\d+) error\(s\):")


def difference(expected: Exchange, ours: Exchange) -> str | None:
    """Return how an answer differs from Kafka Connect's, except for accepted differences; None if it does not."""
    if is_same(expected, ours):
        return None
    known = accepted(expected)
    if known is not None and known.allows(ours):
        return None
    asked = f"{expected['method']} {expected['path']} {expected['body'] or expected['raw_body'] or ''}"
    return f"{asked}\n  theirs: {_shown(expected)}\n  ours:   {_shown(ours)}"


def is_same(expected: Exchange, ours: Exchange) -> bool:
    """The same, without any help from the table of accepted answers."""
    if (expected["status"], _location(expected)) != (ours["status"], _location(ours)):
        return False
    return _same_body(expected["path"].partition("?")[0], expected["response"], ours["response"])


def _same_body(path: str, theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, dict) and "error_count" in theirs:
        return _same_validation(theirs, ours)
    if path == "/connector-plugins":
        return _common_plugins(theirs, ours) == _common_plugins(ours, theirs)
    if path.startswith("/connector-plugins/") and isinstance(theirs, list):
        return _declared(theirs) == _declared(ours)
    if isinstance(theirs, dict) and isinstance(theirs.get("message"), str) and isinstance(ours, dict):
        rest = {k: v for k, v in theirs.items() if k != "message"}
        return rest == {k: v for k, v in ours.items() if k != "message"} and _same_text(
            theirs["message"], ours["message"]
        )
    return bool(_ordered(masked(theirs)) == _ordered(masked(ours)))


def _ordered(body: Any) -> Any:
    """Kafka Connect tells where sinks stand in the order of a map that has none."""
    if not isinstance(body, dict) or not isinstance(body.get("offsets"), list):
        return body
    return {**body, "offsets": sorted(body["offsets"], key=lambda each: json.dumps(each, sort_keys=True))}


def _same_validation(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """The same keys in the same order, with the same errors; both count them right."""
    counts = all(
        side["error_count"] == sum(len(one["value"]["errors"]) for one in side["configs"]) for side in (theirs, ours)
    )
    names = [_declared([one["value"] for one in side["configs"]]) for side in (theirs, ours)]
    errors = [{one["value"]["name"]: one["value"]["errors"] for one in side["configs"]} for side in (theirs, ours)]
    return (
        counts
        and (theirs["name"], theirs["groups"]) == (ours["name"], ours["groups"])
        and names[0] == names[1]
        and all(_same_lines(errors[0][name], errors[1][name]) for name, *_ in names[0])
    )


def _declared(keys: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(k["name"], k.get("type")) for k in keys if k["name"] not in KEYS_DECLARED_BY_US]


def _common_plugins(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[Any]:
    """Return the plugins that both have, in the order of `one`."""
    known = {(plugin["class"], plugin["type"]) for plugin in other}
    return masked([plugin for plugin in one if (plugin["class"], plugin["type"]) in known])  # type: ignore[no-any-return]


def _same_text(theirs: str, ours: str) -> bool:
    """Line by line; where errors are counted, each count is right."""
    their_lines, our_lines = theirs.splitlines(), ours.splitlines()
    for lines in (their_lines, our_lines):
        counted = _COUNTED.fullmatch(lines[0]) if lines else None
        if counted is not None and int(counted[1]) != len(lines) - 2:
            return False
    return _same_lines([_COUNTED.sub("", t) for t in their_lines], [_COUNTED.sub("", o) for o in our_lines])


def _same_lines(theirs: list[str], ours: list[str]) -> bool:
    """Each of ours may go on where Kafka Connect's ends, with the next step."""
    left = [_comparable(t) for t in theirs if not t.startswith(tuple(THEIRS_ALONE))]
    right = [_comparable(o) for o in ours if o not in OURS_ALONE]
    return len(left) == len(right) and all(o.startswith(t) for t, o in zip(left, right, strict=True))


def _comparable(text: str) -> str:
    """Kafka Connect takes its choices from a set without an order."""
    before, colon, choices = text.partition("(case insensitive): ")
    text = before + colon + ", ".join(sorted(choices.split(", ")))
    return "".join(text.partition(WORDED_BY_LIBRARIES)[:2])


def _location(exchange: Exchange) -> str | None:
    """A `;` is encoded by us: bare, it begins a matrix parameter for Kafka Connect's own server."""
    location = exchange["headers"]["Location"]
    return None if location is None else location.replace("%3B", ";")


def _shown(exchange: Exchange) -> str:
    return f"{exchange['status']} {str(masked(exchange['response']))[:600]} {_location(exchange) or ''}"
