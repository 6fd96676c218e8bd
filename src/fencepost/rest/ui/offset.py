"""`/ui/connectors/C/offsets`: the offsets of a connector, and moving them, after a preview."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.errors import BadRequestError
from fencepost.rest.path import ConnectorName
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visit, Visiting, digest

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


router = APIRouter(prefix="/ui/connectors/{name}/offsets", include_in_schema=False)


@router.get("")
async def show_offsets(name: ConnectorName, visit: Visiting) -> Response:
    """Show the offsets; with fields to change them if the connector is stopped."""
    offsets = await _offsets(visit, name)
    return await _page(visit, name, offsets)


@router.post("/preview")
async def preview(name: ConnectorName, visit: Visiting) -> Response:
    """Show what would change, before and after; nothing is stored."""
    fields = await visit.form()
    offsets = await _offsets(visit, name)
    moves = offsets.moves(fields)
    if not moves or any(move.fault for move in moves):
        return await _page(visit, name, offsets, moves=moves, is_unchanged=not moves)
    content: dict[str, Any] = {"moves": moves, "seen": offsets.seen, "is_all": fields.get("all") == FORGET}
    return visit.page("offset_preview.html", title=f"Move {name}", name=name, tab="offsets", **content)


@router.post("")
async def move(name: ConnectorName, visit: Visiting) -> Response:
    """Store what was shown, if the offsets are still those of the preview."""
    fields = await visit.form()
    offsets = await _offsets(visit, name)
    if fields.get("seen") != offsets.seen:
        raise BadRequestError("The offsets have changed since the preview, so nothing was stored; preview it again")
    path, moves = path_of("connectors", name, "offsets"), offsets.moves(fields)
    is_all = fields.get("all") == FORGET
    answer = await visit.send("DELETE", path) if is_all else await visit.send("PATCH", path, body(moves))
    return visit.done(answer, path_of("ui", "connectors", name, "offsets"))


async def _offsets(visit: Visit, name: str) -> Offsets:
    return Offsets.of((await visit.get(path_of("connectors", name, "offsets")))["offsets"])


async def _page(visit: Visit, name: str, offsets: Offsets, **content: Any) -> Response:
    status = await visit.maybe_get(path_of("connectors", name, "status"))
    state = status["connector"]["state"] if status else ""
    given: dict[str, Any] = {"moves": (), "is_unchanged": False} | content
    return visit.page(
        "offsets.html", title=f"Offsets of {name}", name=name, tab="offsets", offsets=offsets, state=state, **given
    )
