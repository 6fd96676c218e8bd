"""`/ui/lineage`: what connectors read and write, in columns from left to right, and as a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.glance import connector_word
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visiting

WIDTH = 1140
"""What fits on a page of 1280 points; more than seven columns make a wider picture."""
_BOX_HEIGHT, _MOST_LINES = 58, 3
_GAP, _DOWN, _EDGE = 36, 74, 8
_LEAST_BOX, _MOST_BOX = 126, 236
_MOST_COLUMNS = 12
_LETTER = 7.6  # the mean width of a letter in a box

Node = tuple[str, str]
"""What it is (`connector`, `topic`, `pattern` of topics, or `external`), and its name."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A connector, what it reads and what it writes; `state` is empty if it is not known.

    `is_open`: the caller may see the records of its topics.
    """

    name: str
    kind: str
    reads: Sequence[Node]
    writes: Sequence[Node]
    state: str = ""
    is_open: bool = False

    @property
    def node(self) -> Node:
        return ("connector", self.name)

    def href(self, end: Node) -> str:
        """Return the page of a topic's records; empty for what has none: patterns, topics of other clusters."""
        is_here = self.is_open and end[0] == "topic" and ": " not in end[1]
        return path_of("ui", "connectors", self.name, "topics", end[1]) if is_here else ""


@dataclass(frozen=True, slots=True)
class Box:
    """A node at its place; `lines` are its name, at most three, shortened to fit."""

    node: Node
    x: int
    y: int
    width: int
    state: str = ""
    href: str = ""
    height: int = _BOX_HEIGHT

    @property
    def what(self) -> str:
        return self.node[0]

    @property
    def name(self) -> str:
        return self.node[1]

    @property
    def lines(self) -> Sequence[str]:
        found: list[str] = []
        most, rest = int((self.width - 20) / _LETTER), self.name
        while len(rest) > most and len(found) < _MOST_LINES - 1:
            cut = (rest.rfind(" ", 1, most) if " " in rest[:most] else max(rest.rfind(c, 1, most) for c in "-_./:")) + 1
            line = rest[: cut if cut > most // 3 else most]
            found.append(line.strip())
            rest = rest[len(line) :]
        return [*found, rest if len(rest) <= most else f"{rest[: most // 2]}…{rest[most // 2 - most + 1 :]}"]


@dataclass(frozen=True, slots=True)
class Picture:
    """`wires` are paths of SVG."""

    width: int
    height: int
    boxes: Sequence[Box]
    wires: Sequence[str]


def picture(flows: Sequence[Flow]) -> Picture | None:
    """Return the picture of these flows; None if there is nothing to show."""
    edges = [
        edge
        for flow in flows
        for edge in [*((one, flow.node) for one in flow.reads), *((flow.node, one) for one in flow.writes)]
    ]
    nodes = list(dict.fromkeys([*(flow.node for flow in flows), *(node for edge in edges for node in edge)]))
    if not nodes:
        return None
    columns = _columns(nodes, edges)
    states = {flow.node: flow.state for flow in flows}
    pages = {end: page for flow in flows for end in (*flow.reads, *flow.writes) if (page := flow.href(end))}
    pages |= {flow.node: path_of("ui", "connectors", flow.name) for flow in flows}
    free = WIDTH - 2 * _EDGE - (len(columns) - 1) * _GAP
    box_width = min(_MOST_BOX, max(_LEAST_BOX, free // len(columns)))
    boxes = {
        node: Box(
            node,
            _EDGE + across * (box_width + _GAP),
            _EDGE + down * _DOWN,
            box_width,
            states.get(node, ""),
            pages.get(node, ""),
        )
        for across, column in enumerate(columns)
        for down, node in enumerate(column)
    }
    height = max(len(column) for column in columns) * _DOWN - (_DOWN - _BOX_HEIGHT) + 2 * _EDGE
    width = len(columns) * (box_width + _GAP) - _GAP + 2 * _EDGE
    return Picture(width, height, list(boxes.values()), [_wire(boxes[a], boxes[b]) for a, b in dict.fromkeys(edges)])


def around(flows: Iterable[Flow], name: str) -> list[Flow]:
    """Return the flow of a connector, and those that share a topic with it directly."""
    found = {flow.name: flow for flow in flows}
    own = found.get(name)
    if own is None:
        return []
    topics = {node for node in (*own.reads, *own.writes) if node[0] == "topic"}
    return [flow for flow in found.values() if flow is own or topics & {*flow.reads, *flow.writes}]


def _columns(nodes: Sequence[Node], edges: Sequence[tuple[Node, Node]]) -> list[list[Node]]:
    """Return the nodes by column: each to the right of what leads to it, except in a circle."""
    column = dict.fromkeys(nodes, 0)
    for _ in range(_MOST_COLUMNS):
        moved = False
        for a, b in edges:
            if column[b] <= column[a] < _MOST_COLUMNS - 1:
                column[b], moved = column[a] + 1, True
        if not moved:
            break
    used = sorted(set(column.values()))
    found: list[list[Node]] = [[node for node in nodes if column[node] == number] for number in used]
    return _untangled(found, edges)


def _untangled(columns: list[list[Node]], edges: Sequence[tuple[Node, Node]]) -> list[list[Node]]:
    """Sort each column by where its neighbours to the left are, so that fewer wires cross."""
    before: dict[Node, list[Node]] = {}
    for a, b in edges:
        before.setdefault(b, []).append(a)
    place: dict[Node, float] = {}
    sorted_columns = []
    for number, column in enumerate(columns):
        ordered = sorted(column) if number == 0 else sorted(column, key=lambda node: (_mean(before, place, node), node))
        place |= {node: float(down) for down, node in enumerate(ordered)}
        sorted_columns.append(ordered)
    return sorted_columns


def _mean(before: Mapping[Node, Sequence[Node]], place: Mapping[Node, float], node: Node) -> float:
    known = [place[one] for one in before.get(node, ()) if one in place]
    return sum(known) / len(known) if known else float(len(place))


def _wire(a: Box, b: Box) -> str:
    x, y, end_x, end_y = a.x + a.width, a.y + _BOX_HEIGHT // 2, b.x, b.y + _BOX_HEIGHT // 2
    bend = max(_GAP // 2, abs(end_x - x) // 2)
    return f"M{x},{y} C{x + bend},{y} {end_x - bend},{end_y} {end_x},{end_y}"


router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/lineage")
async def show_lineage(visit: Visiting) -> Response:
    """Show all connectors; with `of`, one and those that share topics with it."""
    states = await visit.maybe_get("/connectors", expand=["status", "figures"]) or {}
    found = flows_of(await visit.maybe_get("/lineage") or (), states)
    flows = [replace(flow, is_open=visit.may("operate", flow.name)) for flow in found]
    of = visit.request.query_params.get("of", "")
    shown = around(flows, of) if of else flows
    return visit.page("lineage.html", title="Lineage", place="lineage", flows=shown, picture=picture(shown), of=of)


def flows_of(
    found: Iterable[Mapping[str, Any]], connectors: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> list[Flow]:
    """Return what REST says of each connector, with its state in `connectors`."""
    states = {name: connector_word(one) for name, one in connectors.items()}
    flows = [
        Flow(one["name"], one["kind"], _ends(one["reads"]), _ends(one["writes"]), states.get(one["name"], ""))
        for one in found
    ]
    return sorted(flows, key=lambda flow: flow.name)


def _ends(found: Iterable[Mapping[str, Any]]) -> list[Node]:
    """Return topics, patterns of topics and what is outside; a topic of another cluster with the cluster's alias."""
    return [(end["type"], f"{end['cluster']}: {end['name']}" if end.get("cluster") else end["name"]) for end in found]
