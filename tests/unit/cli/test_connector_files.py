"""The files that `apply` reads: each form gives the same connector, and each fault names file, connector and key."""

import json
from pathlib import Path

import pytest

from fencepost.cli.connector_file import read_files

CONFIG = {"connector.class": "FileStreamSource", "file": "/f", "topic": "t", "tasks.max": "2"}
FORMS = {
    "post.json": json.dumps({"name": "c", "config": {**CONFIG, "tasks.max": 2}}),
    "bare.json": json.dumps({"name": "c", **CONFIG}),
    "list.json": json.dumps([{"name": "c", "config": CONFIG}]),
    "expanded.json": json.dumps({"c": {"info": {"name": "c", "config": CONFIG, "tasks": [], "type": "source"}}}),
    "post.yaml": "name: c\nconfig:\n  connector.class: FileStreamSource\n  file: /f\n  topic: t\n  tasks.max: 2\n",
    "strimzi.yml": "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\nmetadata: {name: c}\nspec:\n"
    "  class: FileStreamSource\n  tasksMax: 2\n  config: {file: /f, topic: t}\n",
    "standalone.properties": "name=c\nconnector.class=FileStreamSource\nfile=/f\ntopic=t\ntasks.max=2\n",
}
FAULTS = {
    '{"name": ': "line 1",
    '{"name": "c", "name": "d"}': "name: the key is there twice",
    '{"config": {"connector.class": "x"}}': "name: the name is missing",
    '{"connector.class": "x"}': "name: the name is missing",
    '{"name": "c", "config": {"name": "d"}}': "c: name: the config has another name, d",
    '{"name": "c", "config": {"topics": ["a"]}}': "c: topics: the value is a list",
    '{"name": "c", "config": {"topics": null}}': "c: topics: the value is null",
    "3": "expected",
    "{}": "expected",
}


@pytest.mark.parametrize("name", FORMS)
def test_each_file_format_gives_the_same_connector(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FORMS[name])
    content = read_files([str(tmp_path / name)])
    assert content.faults == []
    [wanted] = content.wanted
    assert (wanted.name, wanted.config) == ("c", {**CONFIG, "name": "c"})
    assert wanted.state == ("RUNNING" if name == "strimzi.yml" else None)


@pytest.mark.parametrize("text", FAULTS)
def test_fault_in_a_connector_file_names_file_connector_and_key(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    content = read_files([str(tmp_path / "x.json")])
    assert content.wanted == []
    [fault] = content.faults
    assert str(fault).startswith(f"{tmp_path}/x.json: ")
    assert FAULTS[text] in str(fault)


def test_directory_argument_reads_all_files_below_it_except_hidden_ones(tmp_path: Path) -> None:
    for number, path in enumerate(("a.json", "deep/er/b.yaml", ".git/c.json", "notes.txt", "worker.properties")):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"name": f"c{number}", "config": CONFIG}))
    assert [one.name for one in read_files([str(tmp_path)]).wanted] == ["c0", "c1"]
    (tmp_path / "empty").mkdir()
    assert "no .json" in str(read_files([str(tmp_path / "empty")]).faults[0])
    assert "No such file" in str(read_files([str(tmp_path / "absent.json")]).faults[0])


def test_apply_reads_json_or_several_yaml_documents_from_standard_input() -> None:
    for text in (FORMS["list.json"], f"---\n{FORMS['post.yaml']}---\nkind: KafkaTopic\napiVersion: v1\n"):
        content = read_files(["-"], lambda text=text: text)  # type: ignore[misc]
        assert ([one.name for one in content.wanted], content.faults) == (["c"], [])


def test_yaml_values_keep_the_text_as_written(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("name: c\nconnector.class: X\na: 010\nb: no\nc: 1_000\nd: 1e3\ne: 'null'\n")
    [wanted] = read_files([str(tmp_path / "x.yaml")]).wanted
    assert [wanted.config[key] for key in "abcde"] == ["010", "no", "1_000", "1e3", "null"]
    (tmp_path / "x.yaml").write_text("name: c\na: 1\na: 2\n")
    assert "a: the key is there twice" in str(read_files([str(tmp_path / "x.yaml")]).faults[0])
    (tmp_path / "x.yaml").write_text("name: [\n")
    assert "no YAML" in str(read_files([str(tmp_path / "x.yaml")]).faults[0])


def test_connector_name_in_two_files_is_a_fault_that_names_both(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(FORMS["post.json"])
    [fault] = read_files([str(tmp_path)]).faults
    assert "a.json" in str(fault)
    assert "b.json" in str(fault)


def test_strimzi_spec_fields_override_its_config(tmp_path: Path) -> None:
    """Strimzi's operator gives the spec precedence, too."""
    spec = "spec:\n  class: A\n  version: '[1,2)'\n  config: {connector.class: B, tasks.max: 7, name: d, file: /f}\n"
    text = f"apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\nmetadata: {{name: c}}\n{spec}"
    (tmp_path / "c.yaml").write_text(text)
    content = read_files([str(tmp_path / "c.yaml")])
    [wanted] = content.wanted
    version = {"connector.plugin.version": "[1,2)"}
    assert wanted.config == {"connector.class": "A", "name": "c", "file": "/f", **version}
    assert [each.partition(": ")[2].partition(" of")[0] for each in content.skipped] == [
        "name",
        "connector.class",
        "tasks.max",
    ]
    (tmp_path / "c.yaml").write_text(text.replace("file: /f", "connector.plugin.version: '1'"))
    assert read_files([str(tmp_path / "c.yaml")]).wanted[0].config["connector.plugin.version"] == "[1,2)"
    (tmp_path / "c.yaml").write_text(
        text.replace("  version: '[1,2)'\n", "").replace("file: /f", "connector.plugin.version: 1")
    )
    assert read_files([str(tmp_path / "c.yaml")]).wanted[0].config["connector.plugin.version"] == "1"
