"""The scenario: what is asked of a worker, Kafka Connect's or ours, over REST, and how what it wrote is read.

`run` drives the worker at `Recorder`'s URL, whose relative file names start in `directory`; `dump` reads its three
topics afterwards.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.testing import eventually
from oracle import sink_scenario
from oracle.recorder import STRING, Json, Recorder

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
VERIFIABLE = "org.apache.kafka.connect.tools.VerifiableSourceConnector"


def file_config(**more: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": "input.txt", "topic": "lines", "tasks.max": "1", **more}


def look_around(rest: Recorder) -> None:
    """Root, plugins, definitions, and what is refused before any connector exists."""
    for path in ("/", "/health", "/connectors", "/connectors?expand=info&expand=status", "/connectors?expand=nonsense"):
        rest.call("GET", path)
    rest.call("GET", "/connector-plugins")
    rest.call("GET", "/connector-plugins?connectorsOnly=false")
    for plugin in ("FileStreamSource", FILE_SOURCE, "RegexRouter", "org.apache.kafka.connect.json.JsonConverter"):
        rest.call("GET", f"/connector-plugins/{plugin}/config")
    rest.call("GET", "/connector-plugins/org.apache.kafka.connect.transforms.RegexRouter/config")
    rest.call("GET", "/connector-plugins/Nonsense/config")
    for path in ("/nonsense", "/connectors/none", "/connectors/none/config", "/connectors/none/status"):
        rest.call("GET", path)
    for path in ("/connectors/none/tasks", "/connectors/none/tasks/0/status", "/connectors/none/topics"):
        rest.call("GET", path)
    rest.call("GET", "/connectors/none/offsets")
    rest.call("GET", "/connectors/none/tasks-config")
    for action in ("pause", "resume", "stop"):
        rest.call("PUT", f"/connectors/none/{action}")
    rest.call("POST", "/connectors/none/restart")
    rest.call("POST", "/connectors/none/restart?includeTasks=true&onlyFailed=false")
    rest.call("POST", "/connectors/none/tasks/0/restart")
    rest.call("DELETE", "/connectors/none")
    rest.call("PATCH", "/connectors/none/config", {"a": "b"})
    rest.call("POST", "/connectors/none/tasks", [])
    rest.call("PUT", "/connectors/none/fence")
    rest.call("PUT", "/connectors")


def validate(rest: Recorder) -> None:
    path = "/connector-plugins/FileStreamSource/config/validate"
    rest.call("PUT", path, file_config(name="lines"))
    rest.call("PUT", path, {"connector.class": "FileStreamSource", "tasks.max": "0"})
    rest.call("PUT", path, file_config(name="lines", file="", transforms="a,b", **{"transforms.a.type": "Nope"}))
    routed = {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"}
    rest.call("PUT", path, file_config(name="lines", **routed))
    rest.call(
        "PUT", path, file_config(name="lines", **{"exactly.once.support": "required", "transaction.boundary": "x"})
    )
    rest.call("PUT", path, {**file_config(name="lines"), "topic": None})
    rest.call("PUT", path, file_config(**{"producer.override.acks": "1", "connector.class": FILE_SOURCE}))
    rest.call("PUT", path, {"file": "input.txt"})
    rest.call("PUT", path, {"connector.class": VERIFIABLE})
    rest.call("PUT", path, raw="{nonsense")
    rest.call("PUT", path, raw="[]")
    rest.call("PUT", "/connector-plugins/Nonsense/config/validate", {"connector.class": "Nonsense"})


def refuse_creation(rest: Recorder) -> None:
    for body in (
        {"name": "bad", "config": {"connector.class": "FileStreamSource", "name": "other"}},
        {"name": "bad", "config": {"connector.class": "FileStreamSource", "tasks.max": "x"}},
        {"name": "bad", "config": {"connector.class": "com.example.Missing"}},
        {"name": "bad", "config": {}},
        {"name": "bad", "config": None},
        {"name": "bad"},
        {"name": "", "config": file_config()},
        {"name": "a\tb", "config": file_config()},
        {"name": "bad", "config": file_config(), "initial_state": "nonsense"},
        {"name": "bad", "config": file_config(), "nonsense": 1},
        {"name": "bad", "config": file_config(**{"transaction.boundary": "connector"})},
        {"name": "bad", "config": file_config(**{"key.converter": "Nope"})},
    ):
        rest.call("POST", "/connectors", body)
    # Kafka Connect takes a null and fails later.
    rest.call("POST", "/connectors", {"name": "null", "config": {**file_config(), "topic": None}})
    rest.call("DELETE", "/connectors/null")
    rest.call("POST", "/connectors", raw="{nonsense")
    rest.call("POST", "/connectors", raw="")
    rest.call("POST", "/connectors", raw="<a/>", media="text/xml")
    rest.call("PUT", "/connectors/bad/config", file_config(name="other"))
    rest.call("PUT", "/connectors/bad/config", {"connector.class": "FileStreamSource"})
    rest.call("PUT", "/connectors/bad/config", raw="[]")


def live(rest: Recorder, directory: Path) -> None:
    """A file source's whole life: created, paused, resumed, reconfigured, restarted, stopped, resumed."""
    lines = directory / "input.txt"
    lines.write_text("one\ntwo\nthree\n")
    config = file_config(**{"key.converter": STRING, "value.converter": STRING})
    rest.call("POST", "/connectors", {"name": "lines", "config": config})
    rest.wait_state("lines", "RUNNING", 1)
    rest.wait_offset("lines", lambda offsets: bool(offsets))
    rest.call("POST", "/connectors", {"name": "lines", "config": config})
    for path in ("", "/config", "/status", "/tasks", "/tasks/0/status", "/tasks/1/status", "/topics", "/offsets"):
        rest.call("GET", f"/connectors/lines{path}")
    rest.call("GET", "/connectors?expand=info&expand=status")
    rest.call("PATCH", "/connectors/lines/offsets", {"offsets": []})
    rest.call("DELETE", "/connectors/lines/offsets")
    for _ in range(2):
        rest.call("PUT", "/connectors/lines/pause")
        rest.wait_state("lines", "PAUSED", 1)
        rest.call("GET", "/connectors/lines/status")
        rest.call("PUT", "/connectors/lines/resume")
        rest.wait_state("lines", "RUNNING", 1)
    rest.call("PUT", "/connectors/lines/config", {**config, "topic": "more-lines", "name": "lines"})
    rest.wait_reconfigured("lines")
    with lines.open("a") as out:
        out.write("four\nfive\n")
    rest.wait_offset("lines", lambda offsets: offsets[0]["offset"]["position"] > 14)
    rest.wait_topic("lines", "more-lines")
    rest.call("PATCH", "/connectors/lines/config", {"batch.size": "100", "header.converter": None})
    rest.call("PATCH", "/connectors/lines/config", {"batch.size": None, "tasks.max": "2"})
    rest.wait_state("lines", "RUNNING", 1)
    rest.call("POST", "/connectors/lines/restart")
    rest.wait_state("lines", "RUNNING", 1)
    rest.call("POST", "/connectors/lines/restart?includeTasks=true&onlyFailed=false")
    rest.wait_state("lines", "RUNNING", 1)
    rest.call("POST", "/connectors/lines/restart?includeTasks=true&onlyFailed=true")
    rest.call("POST", "/connectors/lines/tasks/0/restart")
    rest.wait_state("lines", "RUNNING", 1)
    rest.call("POST", "/connectors/lines/tasks/7/restart")
    rest.call("PUT", "/connectors/lines/topics/reset")
    rest.call("GET", "/connectors/lines/topics")
    stop_and_resume(rest)


def stop_and_resume(rest: Recorder) -> None:
    rest.call("PUT", "/connectors/lines/stop")
    rest.wait_state("lines", "STOPPED", 0)
    for path in ("", "/status", "/tasks", "/offsets"):
        rest.call("GET", f"/connectors/lines{path}")
    rest.call("POST", "/connectors/lines/restart")
    rest.call("POST", "/connectors/lines/tasks/0/restart")
    at = [{"partition": {"filename": "input.txt"}, "offset": {"position": 4}}]
    rest.call("PATCH", "/connectors/lines/offsets", {"offsets": at})
    rest.call("GET", "/connectors/lines/offsets")
    rest.call("PATCH", "/connectors/lines/offsets", {"offsets": [{"partition": {"x": 1}, "offset": None}]})
    rest.call("PATCH", "/connectors/lines/offsets", {})
    rest.call("DELETE", "/connectors/lines/offsets")
    rest.call("GET", "/connectors/lines/offsets")
    rest.call("PUT", "/connectors/lines/resume")
    rest.wait_state("lines", "RUNNING", 1)
    rest.wait_offset("lines", lambda offsets: bool(offsets))


def live_with_many_tasks(rest: Recorder) -> None:
    """Two tasks, then three, deleted, created again with one: every rule of fencing leaves its records."""
    config = {"connector.class": VERIFIABLE, "topic": "numbers", "throughput": "5", "tasks.max": "2", "id": "1"}
    rest.call("POST", "/connectors", {"name": "many-tasks", "config": config})
    rest.wait_state("many-tasks", "RUNNING", 2)
    rest.wait_offset("many-tasks", lambda offsets: len(offsets) == 2)
    rest.call("PUT", "/connectors/many-tasks/config", {**config, "tasks.max": "3"})
    rest.wait_state("many-tasks", "RUNNING", 3)
    rest.wait_offset("many-tasks", lambda offsets: len(offsets) == 3)
    rest.wait_topic("many-tasks", "numbers")
    rest.call("GET", "/connectors/many-tasks/tasks")
    rest.call("GET", "/connectors/many-tasks")
    rest.call("DELETE", "/connectors/many-tasks")
    rest.call("GET", "/connectors/many-tasks/status")
    rest.wait_gone("many-tasks")
    rest.call("POST", "/connectors", {"name": "many-tasks", "config": {**config, "tasks.max": "1"}})
    rest.wait_state("many-tasks", "RUNNING", 1)
    rest.wait_topic("many-tasks", "numbers")
    rest.call("DELETE", "/connectors/many-tasks")


def start_in_other_states(rest: Recorder) -> None:
    for name, state in (("asleep", "PAUSED"), ("at-rest", "stopped")):
        body = {"name": name, "config": file_config(topic=name), "initial_state": state}
        rest.call("POST", "/connectors", body)
        rest.wait_state(name, state.upper(), 0)
        rest.call("GET", f"/connectors/{name}/status")
        rest.call("GET", f"/connectors/{name}/tasks")
    rest.call("PUT", "/connectors/at-rest/config", file_config(topic="at-rest-2"))
    rest.call("DELETE", "/connectors/at-rest")
    odd, encoded = "a b;ü", "a%20b%3B%C3%BC"
    rest.call("POST", "/connectors", {"name": odd, "config": file_config(file="other.txt", topic="odd")})
    rest.wait_state(encoded, "RUNNING", 1)
    eventually(lambda: rest.peek(f"/connectors/{encoded}/topics")[odd]["topics"], within_s=rest.longest_wait_s)
    rest.call("GET", f"/connectors/{encoded}")
    rest.call("DELETE", f"/connectors/{encoded}")


def fail(rest: Recorder) -> None:
    """A task that fails as soon as it starts."""
    config = file_config(file="", topic="numbers", **{"connector.class": VERIFIABLE, "throughput": "x"})
    rest.call("POST", "/connectors", {"name": "failing", "config": config})
    eventually(lambda: "FAILED" in json.dumps(rest.peek("/connectors/failing/status")), within_s=rest.longest_wait_s)
    rest.call("GET", "/connectors/failing/status")
    rest.call("GET", "/connectors/failing/tasks/0/status")
    rest.call("POST", "/connectors/failing/restart?includeTasks=true&onlyFailed=true")
    rest.call("DELETE", "/connectors/failing")


def log(rest: Recorder) -> None:
    rest.call("GET", "/admin/loggers/root")
    rest.call("GET", "/admin/loggers/nonsense")
    rest.call("PUT", "/admin/loggers/org.apache.kafka.connect.file", {"level": "DEBUG"})
    rest.call("PUT", "/admin/loggers/org.apache.kafka.connect.file?scope=cluster", {"level": "INFO"})
    rest.call("PUT", "/admin/loggers/root", {"level": "nonsense"})
    rest.call("PUT", "/admin/loggers/root", {})


def run(rest: Recorder, directory: Path, bootstrap_servers: str) -> None:
    """Everything, in order, from an empty worker on."""
    (directory / "other.txt").write_text("x\n")
    for part in (look_around, validate, refuse_creation):
        part(rest)
    live(rest, directory)
    for part in (live_with_many_tasks, start_in_other_states, fail, log):
        part(rest)
    sink_scenario.run(rest, bootstrap_servers)


def dump(bootstrap_servers: str, topics: Mapping[str, str]) -> dict[str, Json]:
    """Every record of `topics`, by what they are for, in the order of offsets within each partition."""
    conf = {"bootstrap.servers": bootstrap_servers}
    result: dict[str, Json] = {}
    for name, topic in topics.items():
        found: list[LogRecord] = []
        reader = LogReader(conf, topic)
        reader.read_to_end(60, found.append)
        reader.close()
        result[name] = {
            "topic": topic,
            "partitions": Admin(conf).topics.partitions(topic),
            "records": [
                {"partition": r.partition, "offset": r.offset, "key": _text(r.key), "value": _text(r.value)}
                for r in sorted(found)
            ],
        }
    return result


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
