"""Links lead somewhere, generated pages are current, and what a page names exists."""

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import pytest
from page import PAGES, ROOT, anchors, blocks, links

from fencepost.config import Config
from fencepost.config.connector import SinkConnectorConfig, SourceConnectorConfig, StreamConnectorConfig
from fencepost.config.worker import WorkerConfig

_NAMED_TEST = re.compile(r"`(test_\w+)`")
_TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    lost = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        other = (page.parent / target).resolve() if target else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            lost.append(link)
    assert lost == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    queue = [ROOT / "README.md"]
    while queue:
        page = queue.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        queue += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if "://" not in link]
    assert [_id(page) for page in PAGES if page not in seen] == []


def _generator() -> ModuleType:
    found = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_reference_pages_are_current() -> None:
    generate = _generator()
    stale = [n for n, text in generate.pages().items() if (generate.REFERENCE / n).read_text() != text]
    assert stale == [], "run `python docs/generate.py`"


@pytest.mark.parametrize("config", [SourceConnectorConfig, SinkConnectorConfig, StreamConnectorConfig, WorkerConfig])
def test_reference_pages_have_all_settings(config: type[Config]) -> None:
    """Settings that a class inherits are on the page, too."""
    page = "worker-settings.md" if config is WorkerConfig else "connector-settings.md"
    text = (ROOT / "docs" / "reference" / page).read_text()
    assert [key for key in config.settings() if f"\n| `{key}` |" not in text] == []


def test_tests_that_pages_name_exist() -> None:
    named = {name for page in PAGES for name in _NAMED_TEST.findall(page.read_text())}
    written = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    assert named
    assert [name for name in sorted(named) if f"def {name}(" not in written] == []


def test_modules_that_invariants_name_exist() -> None:
    text = (ROOT / "docs" / "invariants.md").read_text()
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    assert named
    assert [n for n in sorted(named) if not ((ROOT / "src/fencepost" / n).exists() or (ROOT / n).exists())] == []


def test_nothing_refers_to_pages_that_are_not_in_the_repository() -> None:
    """An invariant, a step of architecture.md, a decision or a KIP can be looked up; another document cannot."""
    here = [file for tree in ("src", "tests", "bench", "demo", "docs") for file in (ROOT / tree).rglob("*.[pm][yd]")]
    elsewhere = re.compile(r"\b(DESIGN \d|[Cc]ontract A\b|A\.\d+\b)")
    assert here
    assert [str(f.relative_to(ROOT)) for f in here if f != Path(__file__) and elsewhere.search(f.read_text())] == []


def test_the_decisions_that_code_names_exist() -> None:
    text = "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"decision (\d{4})", text))
    assert named
    assert [n for n in sorted(named) if not list((ROOT / "docs/decisions").glob(f"{n}-*.md"))] == []


def test_modules_that_enforce_an_invariant_carry_its_number() -> None:
    text = (ROOT / "docs" / "invariants.md").read_text()
    unmarked = []
    for number, section in re.findall(r"^\*\*(E\d+)\*\*(.*?)(?=^\*\*E|^## )", text, re.MULTILINE | re.DOTALL):
        enforced = re.search(r"- Enforced in (.*?)(?=\n- |\n\n)", section, re.DOTALL)
        assert enforced is not None or "Nothing is deleted yet" in section, number
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", enforced[1] if enforced else ""):
            if not re.search(rf"\b{number}\b", (ROOT / "src/fencepost" / name).read_text()):
                unmarked.append((number, name))
    assert unmarked == []


def test_layers_of_the_page_and_of_the_check_are_the_same() -> None:
    page = re.search(r"\| package \| what it is \|\n.*?\n\n", (ROOT / "docs/architecture.md").read_text(), re.DOTALL)
    assert page is not None
    rows = [set(re.findall(r"`([\w.]+)`", line.split("|")[1])) for line in page[0].splitlines()[2:] if line]
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [{one.strip().removeprefix("fencepost.") for one in layer.split("|")} for layer in contract["layers"]]
    assert rows == layers


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text()))
    named = {name for page in PAGES for name in re.findall(r"(?:^    |`)make ([a-z]+)", page.read_text(), re.MULTILINE)}
    assert named
    assert named <= targets


def test_shell_blocks_parse() -> None:
    import subprocess

    assert blocks("bash")
    for block in blocks("bash"):
        done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{block.name}: {done.stderr}"


def test_pages_that_messages_name_exist() -> None:
    """A user of the wheel has no `docs`: messages name pages by the command that opens them."""
    named, paths = set(), []
    for file in (ROOT / "src").rglob("*.py"):
        if not re.search(r"\bguide\(|\.md\b", text := file.read_text()):
            continue
        tree = ast.parse(text)
        named |= {ast.literal_eval(call.args[0]) for call in ast.walk(tree) if _is_guide(call)}
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
        paths += [f"{file}: {node.value}" for node in texts if re.search(r"[\w-]+/[\w-]+\.md\b", str(node.value))]
    assert named
    assert paths == []
    for page, _, heading in (name.partition("#") for name in sorted(named)):
        assert (ROOT / f"docs/{page}.md").exists(), page
        assert not heading or heading in anchors(ROOT / f"docs/{page}.md"), f"{page}#{heading}"


def _is_guide(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "guide"


def test_evidence_names_all_tests_that_may_be_skipped() -> None:
    text = (ROOT / "docs" / "explanation" / "evidence.md").read_text()
    skip = re.compile(r"pytest\.skip\(|mark\.skip")
    skipping = {file for file in (ROOT / "tests").rglob("*.py") if skip.search(file.read_text())}
    assert skipping
    named = {file for file in skipping if file.stem in text or str(file.parent.relative_to(ROOT / "tests")) in text}
    assert sorted(str(file.relative_to(ROOT)) for file in skipping - named) == []
