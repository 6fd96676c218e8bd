"""Dead letters as callers of REST get them: cut, and without secrets (E11)."""

import base64
import codecs
from collections.abc import Iterable, Iterator
from itertools import islice

from fencepost.cluster.dead_letters import (
    LetterContent,
    LetterError,
    LetterOrigin,
    ShownBytes,
    ShownHeader,
    ShownLetter,
)
from fencepost.dead_letter.letter import DeadLetter, parsed
from fencepost.redaction import HIDDEN
from fencepost.task.failure.dead_letter import (
    CLASS,
    EXCEPTION,
    MESSAGE,
    OFFSET,
    PARTITION,
    STACKTRACE,
    STAGE,
    TASK,
    TOPIC,
)
from fencepost.telemetry.secret import hide, longest_known

KEY, VALUE, _HEADER, _FACT, _STACK = 1_024, 4_096, 256, 2_048, 8_192
_HEADERS = 20
_QUOTED = 4  # a quoted secret is about so many times as long
_BEHIND, _MOST_BEHIND = 1_024, 64 << 10  # as much as is searched for secrets after what is shown


def shown(dead_letter: DeadLetter, *, is_handled: bool) -> ShownLetter:
    """Return a dead letter with the beginnings of what is long."""
    facts, record = dead_letter.facts, dead_letter.record
    task = facts.get(TASK, "")
    origin = LetterOrigin(
        _fact(facts.get(TOPIC)),
        parsed(_fact(facts.get(PARTITION))),
        parsed(_fact(facts.get(OFFSET))),
        dead_letter.time_ms,
    )
    stage, class_name, exception, message = (_fact(facts.get(name)) for name in (STAGE, CLASS, EXCEPTION, MESSAGE))
    return ShownLetter(
        dead_letter.place,
        record.timestamp_ms,
        int(task) if task.isdecimal() and len(task) < 10 else None,
        origin,
        LetterError(stage, class_name, exception, message, _fact(facts.get(STACKTRACE), _STACK)),
        LetterContent(
            shown_bytes(record.key, KEY), shown_bytes(record.value, VALUE), list(shown_headers(dead_letter.headers))
        ),
        is_handled,
    )


def shown_headers(headers: Iterable[tuple[str, bytes | None]]) -> Iterator[ShownHeader]:
    """Yield the first headers, with the beginnings of what is long."""
    for name, data in islice(headers, _HEADERS):
        yield ShownHeader(_cut(name, _HEADER), shown_bytes(data, _HEADER))


def _fact(text: str | None, most: int = _FACT) -> str | None:
    return None if text is None else _cut(text, most)


def _behind() -> int:
    return min(max(_BEHIND, _QUOTED * longest_known()), _MOST_BEHIND)


def _cut(text: str, most: int) -> str:
    return _hidden(text, most)[:most]


def _hidden(text: str, most: int) -> str:
    """Return the beginning of a text, in which secrets are hidden before they could be cut in two.

    No more is searched than is needed for that: it takes long, and others wait for the interpreter.
    """
    behind = _behind()
    found = hide(text[: most + behind])
    return found if len(text) <= most + behind else found[:-behind]  # a secret at the end is cut in two


def shown_bytes(data: bytes | None, most: int) -> ShownBytes | None:
    """Return the beginning of a key or a value, without secrets."""
    if data is None:
        return None
    behind = _behind()
    start = data[: 4 * (most + behind)]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start, final=len(start) == len(data))
    except UnicodeDecodeError:
        return _binary(data, most)
    hidden = _hidden(text, most)
    is_cut = len(hidden) > most or len(text) > most + behind or len(start) < len(data)
    return ShownBytes(hidden[:most], False, len(data), is_cut)


def _binary(data: bytes, most: int) -> ShownBytes:
    start = data[: most + _behind()]
    for text in (start.decode("latin-1"), start.decode("utf-8", "replace")):
        if hide(text) != text:
            return ShownBytes(HIDDEN, False, len(data), True)
    return ShownBytes(base64.b64encode(data[:most]).decode(), True, len(data), len(data) > most)
