"""The name of a test says what it checks: the thing, what it does, and when."""

import re
from collections import Counter

from page import ROOT

LONGEST = 75
_WORDS = """
aloud anew as_it_was behind beside comes_to door doors nobody somebody stands tells told what whatever who whoever whom
whose
"""
_UNCLEAR = re.compile(rf"_({'|'.join(_WORDS.split())})(?=_|$)")
_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


def _tests() -> list[tuple[str, str]]:
    """Return the file and the name of each test, also of those that authors of connectors get."""
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.py.tmpl")]
    return [(str(file.relative_to(ROOT)), name) for file in sorted(files) for name in _TEST.findall(file.read_text())]


def test_names_of_tests_are_short_and_have_no_unclear_words() -> None:
    tests = _tests()
    assert len(tests) > 4000
    assert any(file.endswith(".tmpl") for file, _ in tests)
    assert [f"{file}::{name}" for file, name in tests if len(name) > LONGEST or _UNCLEAR.search(name)] == []


def test_no_two_modules_of_tests_have_the_same_name() -> None:
    """Pytest refuses the second one: it imports a module of a directory that is no package by its name alone."""
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if not (file.parent / "__init__.py").exists()]
    assert len(files) > 400
    assert [name for name, count in Counter(file.name for file in files).items() if count > 1] == []
