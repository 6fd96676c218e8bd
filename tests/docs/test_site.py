"""The site of the documentation, built by the command of `make site`."""

import re
import shlex
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest
from page import ROOT

from fencepost.guide import SITE

pytestmark = pytest.mark.drawn(8)
[COMMAND] = re.findall(r"^\t.*\$\(VENV\)/bin/(mkdocs build.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)


class Built(NamedTuple):
    """The site of a copy of the pages with wrong links and a forgotten page, and what was said of them."""

    code: int
    errors: str
    site: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """One build for all tests here: `make check` has built the site of the pages as they are."""
    copy = tmp_path_factory.mktemp("site")
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", SITE.name))
    (copy / "tests").symlink_to(ROOT / "tests")  # pages link to them
    for path in (*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "mkdocs.yml"):
        shutil.copy(path, copy)
    with (copy / "docs/how-to/upgrade.md").open("a") as page:
        page.write("\n[no file](nowhere.md), [no heading](install.md#nothing)\n")
    (copy / "docs/how-to/forgotten.md").write_text("# Forgotten\n")
    program, *words = shlex.split(COMMAND, comments=True)
    command = [Path(sys.executable).with_name(program), *words]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    return Built(done.returncode, done.stderr, copy / SITE.relative_to(ROOT))


def test_pages_link_to_neighbouring_files_and_examples_are_code(built: Built) -> None:
    assert 'href="../project/index.html#quick-start"' in (built.site / "how-to/install.html").read_text()
    readme = (built.site / "project/index.html").read_text()
    assert 'id="quick-start"' in readme
    assert 'href="../how-to/install.html"' in readme
    python = unescape(re.sub(r"<[^>]+>", "", (built.site / "reference/python.html").read_text()))
    assert '>>> HeaderColumn([[("trace", b"x1")], []])[0][0].value\nb\'x1\'' in python


def test_pages_need_no_server_and_nothing_from_elsewhere(built: Built) -> None:
    pages = list(built.site.rglob("*.html"))
    assert pages
    for page in pages:
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]*)"|<link [^>]*href="([^"]*)"', page.read_text())
        assert [address for pair in loaded for address in pair if "//" in address] == [], page
    assert (built.site / "search/search_index.js").exists()
    assert not list(built.site.rglob("*.map"))


def test_broken_links_and_unlisted_pages_are_errors(built: Built) -> None:
    assert built.code != 0
    for wrong in ("nowhere.md", "#nothing", "forgotten.md"):
        assert wrong in built.errors
