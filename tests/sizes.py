"""The size of what is in `src`: `python -m tests.sizes`, a part of `make check`.

A class has at most 12 public methods and 8 fields, a function 8 parameters and 60 lines, a file 700 lines. What is
larger is listed in `sizes.json` with its size. It may become smaller, and then the list has to say so, but not larger.

`sizes.json` also says how many lines each room may have. A change that exceeds this names what it takes out instead, or
raises the number with a decision that says why. `python -m tests.sizes --write` lowers all numbers to what there is.
"""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".json")
MOST = {"methods": 12, "fields": 8, "parameters": 8, "lines of a function": 60, "lines of a file": 700}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sizes() -> Iterator[tuple[str, str, int]]:
    """Yield what is measured of everything in `src`: its name, what is counted, and the count."""
    for path in sorted((ROOT / "src" / "fencepost").rglob("*.py")):
        text = path.read_text()
        module = str(path.relative_to(ROOT / "src" / "fencepost"))
        yield module, "lines of a file", len(text.splitlines())
        yield from _of_body(module, ast.parse(text))


def rooms() -> dict[str, int]:
    """Return the lines of Python of each room: a package directly below `fencepost`, of `builtin` one level deeper."""
    found: dict[str, int] = {}
    for path in sorted((ROOT / "src" / "fencepost").rglob("*.py")):
        parts = path.relative_to(ROOT / "src" / "fencepost").parts[:-1]
        room = ".".join(parts[: 2 if parts[:1] == ("builtin",) else 1]) or "fencepost"
        found[room] = found.get(room, 0) + len(path.read_text().splitlines())
    return found


def _of_body(name: str, node: ast.AST) -> Iterator[tuple[str, str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            own = f"{name}::{child.name}"
            yield own, "parameters", _parameters(child)
            yield own, "lines of a function", (child.end_lineno or 0) - child.lineno + 1
            yield from _of_body(own, child)
        elif isinstance(child, ast.ClassDef):
            own = f"{name}::{child.name}"
            yield own, "methods", sum(isinstance(each, Function) and each.name[0] != "_" for each in child.body)
            yield own, "fields", len(_fields(child))
            yield from _of_body(own, child)
        else:
            yield from _of_body(name, child)


def _parameters(function: Function) -> int:
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def _fields(of: ast.ClassDef) -> set[str]:
    """Return the attributes that the class declares, and those that its `__init__` sets."""
    declared = {
        each.target.id for each in of.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    made = {
        node.attr
        for each in of.body
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
        for node in ast.walk(each)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return declared | made


def main(arguments: list[str]) -> int:
    found = {f"{name} ({what})": count for name, what, count in sizes() if count > MOST[what]}
    lines = rooms()
    allowed: dict[str, dict[str, int]] = json.loads(LIST.read_text())
    listed, budgets = allowed["larger"], allowed["lines of a room"]
    larger = {name: count for name, count in found.items() if count > listed.get(name, 0)}
    for name, count in larger.items():
        most = listed.get(name)
        print(f"{name}: {count}, " + ("split it" if most is None else f"tests/sizes.json allows {most}"))
    over = {name: count for name, count in lines.items() if count > budgets.get(name, 0)}
    for name, count in over.items():
        print(f"{name}: {count} lines of Python, tests/sizes.json allows {budgets.get(name, 0)}: take something out")
    stale = {name: count for name, count in listed.items() if found.get(name, 0) < count}
    if "--write" in arguments and not (larger or over):
        sizes_now = {"larger": dict(sorted(found.items())), "lines of a room": lines}
        LIST.write_text(json.dumps(sizes_now, indent=1) + "\n")
    elif stale:
        print(f"smaller than tests/sizes.json says, which `python -m tests.sizes --write` mends: {', '.join(stale)}")
        return 1
    return int(bool(larger or over))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
