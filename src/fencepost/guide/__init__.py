"""The pages of the documentation: how messages name them, and where a wheel has them.

`make site` writes the pages into this package, so that a wheel has those of its own version.
"""

from pathlib import Path

SITE = Path(__file__).parent / "site"
NO_PAGES = "There are no pages in this installation; in a clone of the repository, `make site` makes them"


def guide(page: str) -> str:
    """Return how a message names a page, such as `how-to/operate`: by the command that opens it."""
    return f"`fencepost docs {page}`"


def pages() -> dict[str, Path]:
    """Return the files of the pages by their paths below `docs`, without suffix; empty where they were not built."""
    return {_name(path): path for path in sorted(SITE.rglob("*.html"))}


def _name(path: Path) -> str:
    return path.relative_to(SITE).with_suffix("").as_posix().removesuffix("/index")
