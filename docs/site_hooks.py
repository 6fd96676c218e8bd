"""What `make site` does with the pages (a hook of mkdocs), and with docstrings (an extension of griffe).

Pages link to files beside `docs`, as readers of the repository need it. In the site some of them are pages, too; links
to others, such as to source files, are only their text. A link to a file that does not exist is left for mkdocs to
report.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_BESIDE = ("README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "LICENSE")
_PLACE = DOCS / "project"  # where they are in the site

_LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s:#]+)(#[^()\s]*)?\)")
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the files beside `docs`."""
    for name in _BESIDE:
        uri = (_PLACE / name).relative_to(DOCS).as_posix()
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Return the page with links that lead to the same files in the site."""
    place = (DOCS / page.file.src_uri).parent
    written = ROOT if place == _PLACE else place

    def link(found: re.Match[str]) -> str:
        text, path, heading = found.groups(default="")
        target = Path(os.path.normpath(written / path))
        if not target.exists() or (target.is_relative_to(DOCS) and written is place):
            return found[0]
        if target.parent == ROOT and target.name in _BESIDE:
            target = _PLACE / target.name
        elif not target.is_relative_to(DOCS):
            return text
        return f"[{text}]({os.path.relpath(target, place)}{heading})"

    return _LINK.sub(link, markdown)


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Remove files that no page needs: source maps, search in other languages, an empty map of the site."""
    site = Path(config.site_dir)
    for unused in (*site.rglob("*.map"), *site.glob("sitemap.xml*")):
        unused.unlink()
    shutil.rmtree(site / "assets/javascripts/lunr")


class Examples(griffe.Extension):
    """Shows examples in docstrings as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put fences around what `doctest` runs."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
