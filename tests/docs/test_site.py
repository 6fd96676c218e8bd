"""The site of the documentation, built by the command of `make site`."""

import re
import shlex
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from page import ROOT

[COMMAND] = re.findall(r"^\t.*\$\(VENV\)/bin/(mkdocs build.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """What the site is built from, to be changed."""
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").symlink_to(ROOT / "tests")  # pages link to them
    for path in (*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "mkdocs.yml"):
        shutil.copy(path, tmp_path)
    return tmp_path


def build(directory: Path) -> subprocess.CompletedProcess[str]:
    program, *words = shlex.split(COMMAND, comments=True)
    command = [Path(sys.executable).with_name(program), *words]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_pages_lead_to_files_beside_them_and_examples_are_code(copied: Path) -> None:
    done = build(copied)
    assert done.returncode == 0, done.stderr
    site = copied / "build/site"
    assert 'href="../../project/#quick-start"' in (site / "how-to/install/index.html").read_text()
    readme = (site / "project/index.html").read_text()
    assert 'id="quick-start"' in readme
    assert 'href="../how-to/install/"' in readme
    python = unescape(re.sub(r"<[^>]+>", "", (site / "reference/python/index.html").read_text()))
    assert '>>> HeaderColumn([[("trace", b"x1")], []])[0][0].value\nb\'x1\'' in python


def test_links_that_lead_nowhere_and_forgotten_pages_are_errors(copied: Path) -> None:
    with (copied / "docs/how-to/upgrade.md").open("a") as page:
        page.write("\n[no file](nowhere.md), [no heading](install.md#nothing)\n")
    (copied / "docs/how-to/forgotten.md").write_text("# Forgotten\n")
    done = build(copied)
    assert done.returncode != 0
    for wrong in ("nowhere.md", "#nothing", "forgotten.md"):
        assert wrong in done.stderr
