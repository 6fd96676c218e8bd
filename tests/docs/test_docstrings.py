"""What a function does is told by a sentence that begins with a verb."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
_WORDS = """
a also an as every for from here how if in it its no nobody none nothing now of once one only something that the their
there these this those to told true two unless until what when where whether which who whose with
"""
NO_VERBS = frozenset(_WORDS.split())


def _openings() -> list[tuple[str, str]]:
    """Return where each docstring of a function stands, and its first word."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    place = f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
                    found.append((place, text.split()[0].strip(",;:.").lower()))
    return found


def test_the_docstring_of_a_function_begins_with_a_verb() -> None:
    openings = _openings()
    assert len(openings) > 1000
    assert [place for place, word in openings if word in NO_VERBS] == []
