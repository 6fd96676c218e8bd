"""A picture for each part of the bench: how many times as good as the peer each row is, on a logarithmic axis.

Made of the result files and of nothing else, in SVG. The colours can be read on light and dark pages.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from bench.statistic import number, statistic

PLOTS = Path(__file__).parents[1] / "docs" / "explanation" / "plots"

_WIDTH, _ROW, _TOP, _FOOT, _MARGIN = 880, 42, 8, 34, 50
_BETTER, _WORSE, _TEXT, _LINE = "#0d9488", "#d97706", "#7c8794", "#9aa4af"


class Bar(NamedTuple):
    """A row of both sides. `times` is 2 if ours is twice as fast, or half as large where less is better."""

    label: str
    times: float
    figures: str


def bars(result: Mapping[str, Any]) -> list[Bar]:
    """Return a bar for each statistic of each row that has figures of ours and of a peer that are not 0."""
    sides = list(dict.fromkeys(side for row in result["rows"] for side in row["samples"]))[:2]
    return [bar for row in result["rows"] for bar in _bars_of(row, sides)]


def _bars_of(row: Mapping[str, Any], sides: Sequence[str]) -> Iterator[Bar]:
    samples = [row["samples"].get(side) or [] for side in sides]
    if len(samples) < 2 or not all(samples):
        return
    for name in row["statistics"]:
        ours, theirs = (statistic(name, each) for each in samples)
        if ours > 0 and theirs > 0:
            label = row["name"] if name == "median" else f"{row['name']}, {name}"
            times = ours / theirs if row["is_more_better"] else theirs / ours
            yield Bar(label, times, f"{number(ours)} and {number(theirs)} {row['unit']}".strip())


def plot(result: Mapping[str, Any]) -> str | None:
    """Return the picture of a part as SVG; None if no row has both sides."""
    found = bars(result)
    if not found:
        return None
    reach = max(1, *(math.ceil(abs(math.log2(bar.times))) for bar in found))
    low = -reach if any(bar.times < 1 for bar in found) else 0
    height = _TOP + _ROW * len(found) + _FOOT

    def x(times: float) -> float:
        return _MARGIN + (math.log2(times) - low) / (reach - low) * (_WIDTH - 2 * _MARGIN)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" fill="{_TEXT}" role="img">',
        f"<title>{escape(result['title'])}: how many times as good as the peer</title>",
    ]
    for power in range(low, reach + 1):
        at, width = x(2.0**power), 1.5 if power == 0 else 0.5
        lines += [
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{height - _FOOT + 4}" stroke="{_LINE}" '
            f'stroke-width="{width}"/>',
            f'<text x="{at:.1f}" y="{height - 14}" text-anchor="middle">{2.0**power:g} ×</text>',
        ]
    for place, bar in enumerate(found):
        y = _TOP + _ROW * place
        left, right = sorted((x(1), x(bar.times)))
        colour = _BETTER if bar.times >= 1 else _WORSE
        lines += [
            f'<text x="{_MARGIN}" y="{y + 13}">{escape(bar.label)}</text>',
            f'<rect x="{left:.1f}" y="{y + 18}" width="{max(right - left, 1):.1f}" height="14" rx="2" '
            f'fill="{colour}"><title>{escape(bar.figures)}</title></rect>',
            f'<text x="{right + 6:.1f}" y="{y + 30}" font-weight="bold">{number(bar.times)} ×</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def pictures(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the pictures by file name."""
    made = ((f"{result['part']}.svg", plot(result)) for result in results)
    return {name: text for name, text in made if text is not None}


def write(results: Sequence[Mapping[str, Any]], directory: Path = PLOTS) -> None:
    """Write the pictures, and remove those of parts that are no more."""
    directory.mkdir(parents=True, exist_ok=True)
    found = pictures(results)
    for old in directory.glob("*.svg"):
        if old.name not in found:
            old.unlink()
    for name, text in found.items():
        (directory / name).write_text(text)
