"""Docstrings of functions begin with a verb; in the rooms that were written again, a thing of the field follows it."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
_WORDS = """
a also an as every for from here how if in it its no nobody none nothing now of once one only something that the their
there these this those to told true two unless until what when where whether which who whose with
"""
NO_VERBS = frozenset(_WORDS.split())

WRITTEN_AGAIN = ("fencepost/task/",)
"""Where docstrings name things instead of circling around them; a room is added when its docstrings do."""
AROUND = re.compile(r"^\w+ (what|those|who|whoever)\b|\bof those of\b|\bNone if (there is none|it is none)\b")


def _docstrings() -> list[tuple[str, str]]:
    """Return the place of each docstring of a function, and its text."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    found.append((f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}", text))
    return found


def test_docstring_of_a_function_begins_with_a_verb() -> None:
    docstrings = _docstrings()
    assert len(docstrings) > 1000
    assert [place for place, text in docstrings if text.split()[0].strip(",;:.").lower() in NO_VERBS] == []


def test_docstring_of_a_function_names_the_thing_after_its_verb() -> None:
    checked = [(place, text) for place, text in _docstrings() if place.startswith(WRITTEN_AGAIN)]
    assert len(checked) > 200
    assert [f"{place}: {text}" for place, text in checked if AROUND.search(text)] == []
