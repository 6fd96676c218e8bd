"""What a release says of itself is the same in each place."""

import re
import tomllib

import yaml
from page import ROOT, blocks

from fencepost import __version__


def test_package_and_chart_have_one_version() -> None:
    """Git's tags are not asked: a clone without any builds the same wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["version"] == {"path": "src/fencepost/__init__.py"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    chart = yaml.safe_load((ROOT / "deploy/helm/fencepost/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_release_has_the_site() -> None:
    [needed] = re.findall(r"^dist: (.*?) ##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "site" in needed.split()


def test_no_page_installs_from_an_index_that_does_not_have_the_package() -> None:
    """An extra may be named so: it is added to what is installed."""
    commands = [line for language in ("bash", "") for block in blocks(language) for line in block.text.splitlines()]
    assert [line for line in commands if re.search(r"\b(pip|uv) .*install\b.* '?fencepost(?!\[)\b", line)] == []


def test_readme_shows_the_output_printed_in_the_how_tos() -> None:
    shown = [block.text for block in blocks("text") if block.page == ROOT / "README.md"]
    elsewhere = [block.text for block in blocks("text") if block.page.parent.name == "how-to"]
    assert shown
    assert [text for text in shown if text not in elsewhere] == []
