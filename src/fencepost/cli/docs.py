"""`fencepost docs`: opens the documentation that is in the package."""

import difflib
import sys
import webbrowser
from typing import Annotated

import typer

from fencepost.guide import NO_PAGES, pages

_MOST_SIMILAR = 10


def docs(
    page: Annotated[str, typer.Argument(help="A page, such as how-to/operate; a #heading may follow.")] = "index",
) -> None:
    """Print where a page of the documentation is, and open it in a browser.

    The pages are those of this version, and need no network. A worker has them, too, at `/docs/guide`.
    """
    path, mark, heading = page.partition("#")
    name, files = path.removeprefix("docs/").removesuffix(".md").strip("/"), pages()
    if name not in files:
        _refuse(NO_PAGES if not files else f"There is no page {name}{_hint(name, list(files))}")
    url = f"{files[name].as_uri()}{mark}{heading}"
    typer.echo(url)
    if sys.stdout.isatty():
        webbrowser.open(url)


def _hint(name: str, names: list[str]) -> str:
    """Return pages in whose names the word is, or else those with similar names."""
    known = [each for each in names if name in each][:_MOST_SIMILAR]
    similar = known or difflib.get_close_matches(name, names, _MOST_SIMILAR, cutoff=0.8)
    return f"; there is {', '.join(similar)}" if similar else "; `fencepost docs` opens the first one, with a search"


def _refuse(message: str) -> None:
    typer.echo(message, err=True)
    raise typer.Exit(1)
