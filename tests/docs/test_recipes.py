"""The recipes of CONTRIBUTING.md, followed in a copy of the tree: only the files that a recipe names are changed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from page import ROOT

_PAGE = (ROOT / "CONTRIBUTING.md").read_text()


class Tree:
    """A copy of the sources, in which a recipe is followed."""

    def __init__(self, path: Path) -> None:
        left_out = shutil.ignore_patterns("__pycache__", "site", "jvm", "*.jar")
        shutil.copytree(ROOT / "src" / "fencepost", path / "src" / "fencepost", ignore=left_out)
        shutil.copytree(ROOT / "docs" / "reference", path / "docs" / "reference")
        shutil.copy(ROOT / "docs" / "generate.py", path / "docs" / "generate.py")
        self.path = path
        self.changed: set[str] = set()

    def insert(self, file: str, before: str, text: str) -> None:
        """Insert a text before the first line that begins with another one."""
        self.changed.add(file)
        path = self.path / "src" / "fencepost" / file
        head, line, rest = path.read_text().partition(f"\n{before}")
        assert line, f"{file} has no line that begins with {before!r}"
        path.write_text(f"{head}\n{text}{line.removeprefix(chr(10))}{rest}")

    def write(self, file: str, text: str) -> None:
        """Write a new module."""
        self.changed.add(file)
        (self.path / "src" / "fencepost" / file).write_text(text)

    def run(self, *arguments: str) -> str:
        """Run Python with the copy in place of the sources, and return what it prints."""
        path = os.pathsep.join([str(self.path / "src"), str(ROOT / "tests" / "unit" / "rest")])
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def generated(self, page: str) -> str:
        """Return a page of the reference after `python docs/generate.py`."""
        self.run(str(self.path / "docs" / "generate.py"))
        return (self.path / "docs" / "reference" / page).read_text()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def _named(title: str) -> list[str]:
    """Return the files and directories that a recipe names."""
    recipe = re.search(rf"^\*\*{title}\.\*\* .*?(?=\n\n|\Z)", _PAGE, re.MULTILINE | re.DOTALL)
    assert recipe is not None, title
    return re.findall(r"`([\w/]+(?:/|\.py))`", recipe[0])


def _unnamed(tree: Tree, title: str) -> list[str]:
    named = tuple(_named(title))
    return [file for file in sorted(tree.changed) if not file.startswith(named)]


@pytest.mark.drawn(8)
def test_recipe_for_a_setting_suffices(tree: Tree) -> None:
    setting = '    greeting: str = setting("greeting", default="hello", importance=LOW, doc="A word for guests.")\n'
    tree.insert("config/worker.py", "    key_converter: str", setting)
    code = "from fencepost.config.worker import WorkerConfig; print(WorkerConfig.settings()['greeting'].default)"
    assert tree.run("-c", code) == "hello\n"
    assert "| `greeting` |" in tree.generated("worker-settings.md")
    assert _unnamed(tree, "A setting") == []


_SHOUT = '''"""Shout: writes values in capitals."""

from fencepost.api import Record, Transform


class Shout(Transform):
    """Writes values in capitals."""

    def apply(self, record: Record) -> Record:
        return record.with_value(record.value_schema, record.value.upper())
'''


@pytest.mark.drawn(8)
def test_recipe_for_a_transform_suffices(tree: Tree) -> None:
    tree.write("builtin/transform/shout.py", _SHOUT)
    line = '        "org.example.Shout": "fencepost.builtin.transform.shout:Shout",\n'
    tree.insert("plugin/kind.py", '        _TRANSFORMS + "Cast$Key"', line)
    code = (
        "from fencepost.api import SourceRecord\n"
        "from fencepost.plugin.kind import PluginKind\n"
        "from fencepost.plugin.registry import PluginRegistry\n"
        "shout = PluginRegistry().find(PluginKind.TRANSFORM, 'Shout')()\n"
        "record = SourceRecord({}, {}, 'greetings', value='hello')\n"
        "print(shout.apply(record).value)"
    )
    assert tree.run("-c", code) == "HELLO\n"
    assert _unnamed(tree, "A transform, predicate or converter") == []


_RESOURCE = '''@lifecycle.get("/greeting")
async def get_greeting(name: ConnectorName, worker: Worker) -> Response:
    """Greets a connector."""
    greeting = await worker.run(worker.operations.connectors.greeting, name)
    return json_response({"text": greeting.text})


'''
_INFO = '''@dataclass(frozen=True, slots=True)
class Greeting:
    """A greeting of a connector."""

    text: str


'''
_LIMIT = '''_MOST_GUESTS = 8
MOST_GREETINGS = 7
"""How many greetings
there may be."""
'''


@pytest.mark.drawn(8)
def test_recipe_for_a_limit_suffices(tree: Tree) -> None:
    tree.insert("config/java_regex.py", "LONGEST_MATCH_S", _LIMIT)
    found = tree.generated("limits.md")
    assert "| `java_regex.MOST_GREETINGS` | 7 | How many greetings there may be. |" in found
    assert "GUESTS" not in found  # nothing says what that is


_ASKED = """
from starlette.testclient import TestClient
from fake import FakeConnectors, FakeWorker
from fencepost.cluster.info import Greeting
from fencepost.cluster.operations import ConnectorOperations
from fencepost.rest import create_app
from fencepost.worker.operation.connector.connectors import Connectors

FakeConnectors.greeting = Connectors.greeting
assert ConnectorOperations.greeting
client = TestClient(create_app(FakeWorker().operations), base_url="http://localhost:8083")
answer = client.get("/connectors/file/greeting")
print(answer.status_code, answer.text)
"""


@pytest.mark.drawn(8)
def test_recipe_for_a_rest_endpoint_suffices(tree: Tree) -> None:
    tree.insert("rest/resources/connectors.py", '@lifecycle.put("/pause"', _RESOURCE)
    tree.insert("cluster/info.py", "@dataclass", _INFO)
    tree.insert("cluster/operations.py", "    def pause(", "    def greeting(self, name: str) -> Greeting: ...\n\n")
    tree.insert("cluster/operations.py", "from fencepost.cluster.info", "from fencepost.cluster.info import Greeting\n")
    body = '    def greeting(self, name: str) -> Greeting:\n        return Greeting(f"hello, {name}")\n\n'
    tree.insert("worker/operation/connector/connectors.py", "    def pause(", body)
    tree.insert(
        "worker/operation/connector/connectors.py", "from fencepost", "from fencepost.cluster.info import Greeting\n"
    )
    assert tree.run("-c", _ASKED).startswith("403 ")  # nobody may use a path before the table says who may
    tree.insert("rest/access/need.py", '    "GET /": _KNOWN', '    "GET /connectors/{name}/greeting": _VIEW,\n')
    assert tree.run("-c", _ASKED) == '200 {"text":"hello, file"}\n'
    assert "/connectors/{name}/greeting" in tree.generated("rest.md")
    assert _unnamed(tree, "A REST endpoint") == []


_TYPE = """    Type(
        SchemaType.STRING, "org.example.Colour", "string", (), ("colour",), ("colour",),
    ),
"""


@pytest.mark.drawn(8)
def test_recipe_for_a_column_type_suffices(tree: Tree) -> None:
    tree.insert("record/type_table.py", ")  # fmt: skip\n_BY_CONNECT", _TYPE)
    code = (
        "from fencepost.record.schema import Schema, arrow_type\n"
        "from fencepost.record.type_table import SchemaType, arrow_of_avro, of_connect, of_spark\n"
        "colour = Schema(SchemaType.STRING, name='org.example.Colour')\n"
        "is_same = of_spark('colour') is of_connect(colour.type, colour.name)\n"
        "print(arrow_type(Schema.array(colour)), arrow_of_avro('colour'), is_same)"
    )
    assert tree.run("-c", code) == "list<element: string> string True\n"
    assert _unnamed(tree, "A column type") == []


_MESSAGE = """            "greet": Operation({"name": TEXT}, ("text",)),
"""


@pytest.mark.drawn(8)
def test_message_of_the_host_that_java_does_not_know_is_found(tree: Tree) -> None:
    shutil.copytree(ROOT / "src/fencepost/builtin/java/jvm", tree.path / "src/fencepost/builtin/java/jvm")
    tree.insert("builtin/java/protocol.py", '            "commit_records": Operation(', _MESSAGE)
    test = "tests/unit/builtin/java/test_host_protocol.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "operations_of_a_service", test]
    environment = {**os.environ, "PYTHONPATH": str(tree.path / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "test_operations_of_a_service_are_the_cases_of_its_java_class" in done.stdout
    assert done.returncode == 1
    assert _unnamed(tree, "A message of the Java host") == []
