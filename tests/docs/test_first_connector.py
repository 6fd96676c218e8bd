"""The tutorial for authors, step by step, as its reader does it."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from page import ROOT, blocks  # type: ignore[import-not-found]
from typer.testing import CliRunner

from fencepost.cli.main import app
from support.new_project import run_tests, written

PAGE = ROOT / "docs/tutorial/first-connector.md"


def block(language: str, text: str) -> str:
    [found] = [one.text for one in blocks(language) if one.page == PAGE and text in one.text]
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The generated project of step 1, wherever the page has it written to."""
    command = re.search(r"fencepost (new connector .*) --dir", block("bash", "new connector"))
    assert command is not None
    target = tmp_path / "shop-orders"
    result = CliRunner().invoke(app, [*command[1].split(), "--dir", str(target)])
    assert result.exit_code == 0, result.output
    return target


def retyped(project: Path) -> Path:
    """The same after steps 2 and 3."""
    (project / "src/shop_orders/connector.py").write_text(block("python", "class ShopOrdersTask"))
    (project / "tests/test_connector.py").write_text(block("python", "class TestShopOrders"))
    return project


def test_the_files_of_the_page_equal_the_files_of_the_project(project: Path) -> None:
    named = re.findall(r"^\| `([\w./]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(named) == 4
    assert [name for name in named if not (project / name).exists()] == []


@pytest.mark.drawn(8)
def test_the_tests_pass_and_the_fault_of_the_page_is_found_as_the_page_says(project: Path) -> None:
    code, said = run_tests(retyped(project), ["tests/test_connector.py"])
    assert code == 0, said
    assert "6 passed, 1 skipped" in said, said
    connector = project / "src/shop_orders/connector.py"
    text = connector.read_text()
    assert text.count("id > ?") == 1
    connector.write_text(text.replace("id > ?", "id >= ?"))
    code, said = run_tests(project, ["tests/test_connector.py"])
    assert code == 1
    [shown] = block("text", "AssertionError").splitlines()
    assert shown in said, said


def test_the_entry_point_of_the_page_about_publishing_is_that_of_a_project(tmp_path: Path) -> None:
    [shown] = [one.text for one in blocks("toml") if one.page == ROOT / "docs/how-to/publish-a-connector.md"]
    assert shown in (written(tmp_path, "source", "price-feed") / "pyproject.toml").read_text()


def test_the_table_of_the_page_has_a_hundred_orders(tmp_path: Path) -> None:
    script = re.search(r"<<'END'\n(.*)^END$", block("bash", "CREATE TABLE"), re.DOTALL | re.MULTILINE)
    assert script is not None
    database = tmp_path / "shop.db"
    text = script[1].replace("/tmp/shop.db", str(database))
    subprocess.run([sys.executable, "-c", text], check=True)
    with sqlite3.connect(database) as db:
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (100,)
