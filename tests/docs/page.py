"""The pages of the documentation, and what stands in them."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code in a page; `language` is empty where it says none."""

    page: Path
    language: str
    text: str

    @property
    def name(self) -> str:
        first = next(iter(self.text.strip().splitlines()), "")
        return f"{self.page.relative_to(ROOT)}: {first[:50]}"


def blocks(language: str) -> list[Block]:
    """Return the blocks of a language, of all pages."""
    return [
        Block(page, found, textwrap.dedent(text))
        for page in PAGES
        for _, found, text in _BLOCK.findall(page.read_text())
        if found == language
    ]


def links(page: Path) -> list[str]:
    """Return the targets of the links of a page."""
    return _LINK.findall(_BLOCK.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """Return what links may name behind `#`: the headings, as GitHub writes them."""
    return {_anchor(heading) for heading in _HEADING.findall(_BLOCK.sub("", page.read_text()))}


def _anchor(heading: str) -> str:
    plain = re.sub(r"[`*]", "", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
