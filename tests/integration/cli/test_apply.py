"""`fencepost apply` on a worker of ours and on one of Kafka Connect."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.testing import eventually
from support.command_line import Ran
from support.http_answers import Answer, Asked, HttpAnswers

Run = Callable[..., Ran]
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="{}";'
CANARY = "c4n4ry-of-a-password"


def lines(directory: Path, name: str, **more: str) -> dict[str, Any]:
    """A source that reads an empty file."""
    file = directory / f"{name}.txt"
    file.touch()
    return {"connector.class": FILE_SOURCE, "file": str(file), "topic": name} | {
        key.replace("_", "."): value for key, value in more.items()
    }


def write(directory: Path, configs: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write a file for each connector to a directory of its own."""
    into = directory / "connectors"
    into.mkdir(exist_ok=True)
    for name, config in configs.items():
        (into / f"{name}.json").write_text(json.dumps({"name": name, "config": config}))
    return into


def test_applying_the_same_files_twice_changes_connectors_once(run: Run, side: Any, name: str, tmp_path: Path) -> None:
    files = write(tmp_path, {f"{name}-a": lines(tmp_path, f"{name}-a"), f"{name}-b": lines(tmp_path, f"{name}-b")})
    first = run("apply", files, "--wait", "60")
    assert (first.code, first.out.splitlines()[-1]) == (0, "2 done, 0 unchanged"), first.text
    assert side.states(f"{name}-a") == ["RUNNING", "RUNNING"]
    again = run("apply", files)
    assert (again.code, again.out) == (0, "0 done, 2 unchanged\n")
    (files / f"{name}-b.json").write_text(
        json.dumps({**lines(tmp_path, f"{name}-b"), "name": f"{name}-b", "topic": "other"})
    )
    changed = run("apply", files)
    assert (changed.code, changed.out) == (0, f"{name}-b: changed (topic)\n1 done, 1 unchanged\n")
    assert side.config(f"{name}-b")["topic"] == "other"


def test_a_diff_shows_each_key_changes_nothing_and_has_an_exit_code(
    run: Run, side: Any, name: str, tmp_path: Path
) -> None:
    files = write(tmp_path, {name: lines(tmp_path, name, topic="old", tasks_max="1")})
    assert run("apply", files).code == 0
    write(tmp_path, {name: lines(tmp_path, name, topic="new", batch_size="7"), f"{name}-2": lines(tmp_path, name)})
    shown = run("apply", files, "--diff")
    assert shown.code == 3
    assert f"~ {name} (batch.size, tasks.max, topic)" in shown.out
    for line in ("    + batch.size=7", "    - tasks.max=1", "    - topic=old", "    + topic=new", f"+ {name}-2"):
        assert line in shown.out.splitlines()
    assert side.config(name)["topic"] == "old"
    assert side.config(f"{name}-2") == {}


def test_no_config_is_applied_when_any_is_invalid_and_all_errors_are_shown(
    run: Run, side: Any, name: str, tmp_path: Path
) -> None:
    files = write(
        tmp_path,
        {
            f"{name}-good": lines(tmp_path, name),
            f"{name}-bad": lines(tmp_path, name, batch_size="many", tasks_max="none"),
            f"{name}-absent": {"connector.class": "NoSuchClass"},
        },
    )
    (files / "broken.json").write_text('{"name": ')
    refused = run("apply", files)
    assert refused.code == 2
    for texts in (
        (f"{name}-bad.json", "batch.size"), (f"{name}-bad.json", "tasks.max"), (f"{name}-absent.json", "NoSuchClass"),
        ("broken.json", "line 1"),
    ):  # fmt: skip
        assert any(all(text in line for text in texts) for line in refused.err.splitlines()), (texts, refused.err)
    assert side.config(f"{name}-good") == {}


def test_prune_deletes_only_matching_connectors_after_asking(run: Run, side: Any, name: str, tmp_path: Path) -> None:
    names = [f"{name}-{each}" for each in ("kept", "gone", "other")]
    files = write(tmp_path, {each: lines(tmp_path, each) for each in names})
    assert run("apply", files).code == 0
    (files / f"{name}-gone.json").unlink()
    (files / f"{name}-other.json").unlink()
    declined = run("apply", files, "--prune", f"{name}-g*", typed="n\n")
    assert declined.code == 1
    assert f"- {name}-gone" in declined.err
    assert f"{name}-other" not in declined.text
    assert side.config(f"{name}-gone") != {}
    done = run("apply", files, "--prune", f"{name}-g*", typed="y\n")
    assert done.code == 0, done.text
    assert f"{name}-gone: deleted" in done.out
    present = eventually(lambda: [n for n in side.rest.get("/connectors").json() if n.startswith(name)])
    assert sorted(present or ()) == [f"{name}-kept", f"{name}-other"]


def test_secrets_are_never_shown_and_never_count_as_a_difference(
    run: Run, side: Any, name: str, tmp_path: Path
) -> None:
    secret = {"producer_override_sasl_jaas_config": LOGIN.format(CANARY)}
    files = write(tmp_path, {name: lines(tmp_path, name, **secret)})
    seen = [run("apply", files, "--diff"), run("apply", files), run("apply", files), run("apply", files, "--diff")]
    assert [each.code for each in seen] == [3, 0, 0, 0], seen
    if side.is_ours:
        assert "cannot be compared" in seen[2].err
        seen.append(run("apply", files, "--send-secrets"))
        assert seen[-1].out.splitlines()[-1] == "1 done, 0 unchanged"
    else:
        other = {"producer_override_sasl_jaas_config": LOGIN.format(CANARY + "2")}
        write(tmp_path, {name: lines(tmp_path, name, **other)})
        seen.append(run("apply", files, "--diff"))
        assert seen[-1].code == 3
        assert "    + producer.override.sasl.jaas.config=[hidden]" in seen[-1].out.splitlines()
    write(tmp_path, {name: {**lines(tmp_path, name, **secret), "batch.size": f"db://me:{CANARY}@host"}})
    seen.append(run("apply", files, "-o", "json"))
    assert seen[-1].code == 2
    assert not [each for each in seen if CANARY in each.text]


def test_apply_prints_the_result_of_each_connector_after_a_partial_failure(
    run: Run, side: Any, name: str, tmp_path: Path
) -> None:
    """A config that was valid a moment ago is refused: something changed between validation and the request."""
    names = [f"{name}-{each}" for each in "abc"]
    files = write(tmp_path, {each: lines(tmp_path, each) for each in names})

    def between(asked: Asked) -> Answer:
        if asked.method == "PUT" and asked.path == f"/connectors/{name}-b/config":
            return Answer({"error_code": 400, "message": "the topic was taken in the meantime"}, 400)
        answer = httpx.request(
            asked.method,
            side.url + asked.path,
            content=asked.body,
            headers={"content-type": "application/json"},
            timeout=100,
        )
        return Answer(answer.json() if answer.content else {}, answer.status_code)

    with HttpAnswers(between) as served:
        done = run("apply", files, "--prune", f"{name}-z*", "-o", "json", FENCEPOST_URL=served.url)
    assert done.code == 1
    found = {each["name"]: each["result"] for each in json.loads(done.out)["connectors"]}
    assert found == {f"{name}-a": "created", f"{name}-b": "failed", f"{name}-c": "created"}
    assert [bool(side.config(each)) for each in names] == [True, False, True]
    rest = run("apply", files)
    assert (rest.code, rest.out.splitlines()[-1]) == (0, "1 done, 2 unchanged")


def test_state_of_a_strimzi_resource_is_applied(run: Run, side: Any, name: str, tmp_path: Path) -> None:
    file = tmp_path / "kafkaconnector.yaml"

    def resource(state: str) -> str:
        config = lines(tmp_path, name)
        return (
            "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\n"
            f"metadata:\n  name: {name}\nspec:\n  class: {FILE_SOURCE}\n  tasksMax: 1\n  state: {state}\n"
            f"  config:\n    file: {config['file']}\n    topic: {name}\n---\nkind: KafkaTopic\napiVersion: v1\n"
        )

    file.write_text(resource("paused"))
    first = run("apply", file, "--wait", "60")
    assert first.code == 0, first.text
    assert "KafkaTopic" in first.err
    eventually(lambda: side.states(name)[0] == "PAUSED", within_s=60)
    assert run("apply", file).out == "0 done, 1 unchanged\n"
    file.write_text(resource("running"))
    assert run("apply", file, "--wait", "60").out.startswith(f"{name}: changed (now RUNNING)")
    assert side.states(name) == ["RUNNING", "RUNNING"]


@pytest.mark.parametrize("side", ["fencepost"], indirect=True)
def test_get_and_status_filter_connectors_and_print_json(run: Run, side: Any, name: str, tmp_path: Path) -> None:
    files = write(tmp_path, {f"{name}-{each}": lines(tmp_path, name) for each in "ab"})
    assert run("apply", files, "--wait", "60").code == 0
    side.rest.put(f"/connectors/{name}-b/pause")
    eventually(lambda: side.states(f"{name}-b") == ["PAUSED", "PAUSED"], within_s=60)
    found = json.loads(run("get", f"{name}*", "--state", "running", "-o", "json").out)
    assert [(each["name"], each["type"], each["tasks"]) for each in found] == [(f"{name}-a", "source", {"RUNNING": 1})]
    assert run("get", f"{name}*", "--type", "sink", "-o", "json").out == "[]\n"
    heading, *rows = run("get", f"{name}*").out.splitlines()
    assert heading.split() == ["NAME", "TYPE", "STATE", "TASKS", "DELIVERY", "WORKER", "CLASS"]
    assert [row.split()[2] for row in rows] == ["RUNNING", "PAUSED"]
    _, connector, task = run("status", f"{name}-b").out.splitlines()
    assert (connector.split()[1], task.split()[1:3]) == ("PAUSED", ["0", "PAUSED"])
    assert run("status", "no-such-connector").code == 1
