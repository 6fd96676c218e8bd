"""Examples of names that a pattern matches, to detect that a stream's output would be among its input."""

import re
from itertools import islice, product
from typing import Any

from fencepost.api import RecordError
from fencepost.builtin.transform.java_regex import compiled
from fencepost.config.check import LONGEST_TOPIC

_MOST = 200
_LETTERS = "xX0-._"
_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{LONGEST_TOPIC}}}")


def matching_names(pattern: str) -> list[str]:
    """Return names of topics that a Java regular expression matches, some for each of its branches.

    Returns none if the expression is wrong or too complex.
    """
    try:
        own = compiled(pattern)
        made = list(_of(re._parser.parse(own.pattern)))  # type: ignore[attr-defined]
        return sorted({name for name in made if _NAME.fullmatch(name) and own.fullmatch(name)})
    except (NotImplementedError, RecordError, re.error, RecursionError):
        return []


def _of(tokens: Any) -> list[str]:
    parts = [_choices(str(kind), value) for kind, value in tokens]
    return ["".join(chosen) for chosen in islice(product(*parts), _MOST)]


def _choices(kind: str, value: Any) -> list[str]:
    match kind:
        case "LITERAL":
            return [chr(value)]
        case "ANY":
            return ["x"]
        case "NOT_LITERAL":
            return ["x" if value != ord("x") else "y"]
        case "IN":
            return _of_class(value)
        case "BRANCH":
            return [name for branch in value[1] for name in _of(branch)]
        case "SUBPATTERN":
            return _of(value[3])
        case "ATOMIC_GROUP":
            return _of(value)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = value
            counts = [count for count in (least, least + 1) if count <= min(int(most), LONGEST_TOPIC)]
            names = _of(inner)
            made = [name * count for count in counts if count for name in names if len(name) * count <= LONGEST_TOPIC]
            return made if least else ["", *made]
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return [""]
    raise NotImplementedError(kind)


def _of_class(items: Any) -> list[str]:
    is_negated = any(str(kind) == "NEGATE" for kind, _ in items)
    named = [
        chr(value[0] if str(kind) == "RANGE" else value) for kind, value in items if str(kind) in ("LITERAL", "RANGE")
    ]
    return [*([] if is_negated else named[:2]), *_LETTERS][:8]
