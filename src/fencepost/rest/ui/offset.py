"""Moves of offsets: what a form asks for, against what there is."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.rest.ui.digest import digest

FORGET = "forget"
_MOST_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Move:
    """An offset before and after, as JSON; an empty text is none. `fault`: why it cannot be stored."""

    partition: str
    before: str
    after: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of a connector, by partition, both as JSON; `seen` says which these are."""

    known: Mapping[str, str]

    @classmethod
    def of(cls, found: Iterable[Mapping[str, Any]]) -> "Offsets":
        """Return those of an answer of REST."""
        return cls({text(one["partition"]): text(one["offset"]) for one in found})

    @property
    def seen(self) -> str:
        return digest(sorted(self.known.items()))

    @property
    def shown(self) -> list[tuple[str, str]]:
        return sorted(self.known.items())[:_MOST_SHOWN]

    def moves(self, fields: Mapping[str, str]) -> list[Move]:
        """Return what a form changes: `p.N` is a partition, `o.N` its new offset (empty: as it is, or forgotten)."""
        if fields.get("all") == FORGET:
            return [Move(partition, before, "") for partition, before in sorted(self.known.items())]
        found = []
        for name, partition in fields.items():
            if name.startswith("p.") and partition.strip():
                number = name.removeprefix("p.")
                after = "" if fields.get(f"{FORGET}.{number}") else fields.get(f"o.{number}", "").strip()
                found.append(self._move(partition.strip(), after))
        return [move for move in found if move.fault or move.before != move.after]

    def _move(self, partition: str, after: str) -> Move:
        try:
            of = text(_object(partition, "The partition"))
            then = text(_object(after, "The offset")) if after else ""
        except ValueError as error:
            return Move(partition, self.known.get(partition, ""), after, str(error))
        return Move(of, self.known.get(of, ""), then)


def body(moves: Sequence[Move]) -> dict[str, object]:
    """Return the moves as REST takes them."""
    return {
        "offsets": [
            {"partition": json.loads(move.partition), "offset": json.loads(move.after) if move.after else None}
            for move in moves
        ]
    }


def text(value: object) -> str:
    """Return a partition or an offset as JSON, always in the same order; empty for none."""
    return "" if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _object(given: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(given)
    except ValueError as error:
        raise ValueError(f"{what} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f'{what} is not a JSON object, such as {{"position": 5}}')
    return found
