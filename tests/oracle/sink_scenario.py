"""The part of the scenario that is about sinks: what is asked of them, in every state, and how they are moved."""

from typing import Any

from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from oracle.recorder import STRING, Json, Recorder

FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
VERIFIABLE_SINK = "org.apache.kafka.connect.tools.VerifiableSinkConnector"
TOPIC, MATCHING = "sunk-words", "sunk-wor.*"
WORDS = ("one", "two", "three", "four", "five", "six")
ENDS = {0: 4, 1: 2}  # the first four words are in partition 0


def fill(bootstrap_servers: str) -> None:
    """Make the topic that the sinks read, outside of any transaction: markers would stand between the offsets."""
    conf = {"bootstrap.servers": bootstrap_servers}
    Admin(conf).topics.create(TOPIC, partitions=len(ENDS), replication=1)
    producer = Producer(conf)
    for number, word in enumerate(WORDS):
        producer.produce(TOPIC, word.encode(), partition=int(number >= ENDS[0]))
    assert producer.flush(30) == 0


def config(**more: str) -> dict[str, str]:
    own = {"connector.class": "FileStreamSink", "file": "output.txt", "topics": TOPIC, "tasks.max": "1"}
    return own | {"key.converter": STRING, "value.converter": STRING, **more}


def place(partition: Json, topic: Json = TOPIC) -> dict[str, Json]:
    return {"kafka_topic": topic, "kafka_partition": partition}


def at(offset: Json, partition: Json = 0) -> dict[str, Json]:
    """Return the body that moves one partition."""
    return {"offsets": [{"partition": place(partition), "offset": {"kafka_offset": offset}}]}


SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"offsets": []},
    {"offsets": [{"partition": None, "offset": {"kafka_offset": 1}}]},
    {"offsets": [{"offset": {"kafka_offset": 1}}]},
    {"offsets": [{"partition": {"kafka_topic": TOPIC}, "offset": {"kafka_offset": 1}}]},
    {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]},
    {"offsets": [{"partition": place(0, None), "offset": {"kafka_offset": 1}}]},
    {"offsets": [{"partition": place(None), "offset": {"kafka_offset": 1}}]},
    {"offsets": [{"partition": place(0), "offset": {}}]},
    at(1, "x"),
    at(1, 0.5),
    at(1, -1),
    at(1, True),
    at(None),
    at("x"),
    at(1.5),
    at(-1),
    at(True),
    at([1]),
    {"offsets": "x"},
    {"offsets": [{"partition": place(9), "offset": None}, {"partition": place(0), "offset": {"kafka_offset": "x"}}]},
)
"""What cannot be the offsets of a sink."""


class Sinks:
    """Sinks of one worker, asked over REST; the cluster tells what REST does not."""

    def __init__(self, rest: Recorder, bootstrap_servers: str) -> None:
        self.rest = rest
        self._admin = Admin({"bootstrap.servers": bootstrap_servers})

    def create(self, name: str, config: dict[str, str], **more: Json) -> None:
        self.rest.call("POST", "/connectors", {"name": name, "config": config, **more})

    def look(self, name: str, *paths: str) -> None:
        for path in paths:
            self.rest.call("GET", f"/connectors/{name}{path}")

    def patch(self, name: str, body: Json) -> None:
        self.rest.call("PATCH", f"/connectors/{name}/offsets", body)

    def do(self, name: str, what: str, state: str, tasks: int = 1) -> None:
        """PUT an action, and wait until it is done."""
        self.rest.call("PUT", f"/connectors/{name}/{what}")
        self.rest.wait_state(name, state, tasks)
        if state == "STOPPED":
            eventually(
                lambda: not self._admin.groups.describe(f"connect-{name}").members, within_s=self.rest.longest_wait_s
            )

    def wait_for_ends(self, name: str) -> None:
        """Until all is written, and committed."""

        def stands() -> bool:
            found = self.rest.peek(f"/connectors/{name}/offsets")["offsets"]
            return {o["partition"]["kafka_partition"]: o["offset"]["kafka_offset"] for o in found} == ENDS

        eventually(stands, within_s=self.rest.longest_wait_s)


def look_around(rest: Recorder) -> None:
    for plugin in (FILE_SINK, "VerifiableSink"):
        rest.call("GET", f"/connector-plugins/{plugin}/config")


def validate(rest: Recorder) -> None:
    path = "/connector-plugins/FileStreamSink/config/validate"
    regex, dead = "topics.regex", "errors.deadletterqueue.topic.name"
    for changed in (
        {},
        {"topics": "", regex: MATCHING},
        {regex: MATCHING},
        {"topics": ""},
        {"topics": " , "},
        {"topics": "", regex: "(sunk"},
        {dead: TOPIC},
        {"topics": "", regex: MATCHING, dead: "sunk-worse"},
        {dead: "letters", "errors.deadletterqueue.topic.replication.factor": "x"},
        {"errors.tolerance": "some", "errors.deadletterqueue.context.headers.enable": "maybe"},
        {"tasks.max": "0"},
        {"connector.class": "FileStreamSource"},
        {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"},
        {"consumer.override.isolation.level": "read_committed", "consumer.override.group.id": "others"},
    ):
        rest.call("PUT", path, config(name="out", **changed))
    rest.call("PUT", path, {**config(name="out"), "topics": None})
    rest.call("PUT", path, {"connector.class": "FileStreamSink"})
    rest.call("PUT", "/connector-plugins/VerifiableSink/config/validate", {"connector.class": VERIFIABLE_SINK})


def refuse_creation(sinks: Sinks) -> None:
    for changed in ({"topics": ""}, {"topics.regex": MATCHING}, {"errors.deadletterqueue.topic.name": TOPIC}):
        sinks.create("out-bad", config(**changed))
    sinks.rest.call("PUT", "/connectors/out-bad/config", config(topics=""))
    sinks.look("out-bad", "/status", "/offsets")


def live(sinks: Sinks) -> None:
    """A file sink's whole life: created, moved where it must not be, paused, reconfigured, restarted."""
    rest, name = sinks.rest, "out-words"
    sinks.create(name, config())
    rest.wait_state(name, "RUNNING", 1)
    sinks.wait_for_ends(name)
    sinks.create(name, config())
    sinks.look(name, "", "/config", "/status", "/tasks", "/tasks/0/status", "/tasks/1/status", "/topics", "/offsets")
    rest.call("GET", "/connectors?expand=info&expand=status")
    for body in (at(1), at("x"), {"offsets": []}):
        sinks.patch(name, body)
    rest.call("DELETE", f"/connectors/{name}/offsets")
    for _ in range(2):
        sinks.do(name, "pause", "PAUSED")
        sinks.look(name, "/status")
        sinks.patch(name, at(1))
        sinks.do(name, "resume", "RUNNING")
    rest.call("PUT", f"/connectors/{name}/config", config(**{"tasks.max": "2"}))
    rest.wait_state(name, "RUNNING", 2)
    sinks.look(name, "", "/tasks")
    rest.call("PATCH", f"/connectors/{name}/config", {"tasks.max": "1", "header.converter": None})
    rest.wait_state(name, "RUNNING", 1)
    rest.call("PATCH", f"/connectors/{name}/config", {"topics.regex": MATCHING})
    rest.call("POST", f"/connectors/{name}/restart")
    rest.wait_state(name, "RUNNING", 1)
    rest.call("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=false")
    rest.wait_state(name, "RUNNING", 1)
    rest.call("POST", f"/connectors/{name}/tasks/0/restart")
    rest.wait_state(name, "RUNNING", 1)
    rest.call("POST", f"/connectors/{name}/tasks/7/restart")


def move(sinks: Sinks) -> None:
    """The same sink, stopped: its offsets are read, altered, refused, forgotten; then it goes on."""
    rest, name = sinks.rest, "out-words"
    sinks.do(name, "stop", "STOPPED", 0)
    sinks.look(name, "", "/status", "/tasks", "/offsets")
    for body in (at(1), at("2"), at(1, "1"), at(0, 1)):
        sinks.patch(name, body)
        sinks.look(name, "/offsets")
    sinks.patch(name, {"offsets": [{"partition": place(1), "offset": None}]})
    sinks.look(name, "/offsets")
    both = [{"partition": place(p), "offset": {"kafka_offset": 1}} for p in ENDS]
    sinks.patch(name, {"offsets": both})
    for body in SHAPES:
        sinks.patch(name, body)
    sinks.look(name, "/offsets")
    sinks.patch(name, {"offsets": [{"partition": place(9), "offset": {"kafka_offset": 0}}]})
    sinks.patch(name, {"offsets": [{"partition": place(0, "nowhere"), "offset": {"kafka_offset": 0}}]})
    sinks.patch(name, {"offsets": [{"partition": place(9), "offset": None}]})
    sinks.patch(name, {"offsets": [{"partition": place(0, "nowhere"), "offset": None}]})
    sinks.patch(name, at(99))
    for _ in range(2):
        rest.call("DELETE", f"/connectors/{name}/offsets")
        sinks.look(name, "/offsets")
    sinks.do(name, "resume", "RUNNING")
    sinks.wait_for_ends(name)
    sinks.look(name, "/offsets")
    rest.call("PUT", f"/connectors/{name}/topics/reset")
    sinks.do(name, "stop", "STOPPED", 0)
    rest.call("DELETE", f"/connectors/{name}")
    rest.wait_gone(name)
    sinks.look(name, "", "/offsets")
    for method in ("PATCH", "DELETE"):
        rest.call(method, f"/connectors/{name}/offsets", at(1) if method == "PATCH" else None)


def begin_anew(sinks: Sinks) -> None:
    """A sink of the same name finds what the deleted one has committed; one that was never there finds nothing."""
    rest = sinks.rest
    for name in ("out-words", "out-unmoved"):
        sinks.create(name, config(file="again.txt"), initial_state="STOPPED")
        rest.wait_state(name, "STOPPED", 0)
        sinks.look(name, "/offsets", "/status")
        rest.call("DELETE", f"/connectors/{name}/offsets")
        sinks.patch(name, at(3))
        sinks.do(name, "resume", "RUNNING")
        sinks.wait_for_ends(name)
        sinks.look(name, "/offsets", "/topics")
        rest.call("DELETE", f"/connectors/{name}")


def match(sinks: Sinks) -> None:
    """A sink by a regular expression, and in a group that its config names."""
    name = "out-matching"
    named = {"topics": "", "topics.regex": MATCHING, "consumer.override.group.id": "named-by-its-config"}
    sinks.create(name, config(file="matched.txt", **named))
    sinks.rest.wait_state(name, "RUNNING", 1)
    sinks.wait_for_ends(name)
    sinks.look(name, "", "/status", "/tasks", "/offsets", "/topics")
    sinks.rest.call("DELETE", f"/connectors/{name}")


def verify(sinks: Sinks) -> None:
    """A VerifiableSink, whose connector numbers its tasks."""
    name = "out-verified"
    sinks.create(name, config(**{"connector.class": VERIFIABLE_SINK, "tasks.max": "2", "id": "7"}))
    sinks.rest.wait_state(name, "RUNNING", 2)
    sinks.wait_for_ends(name)
    sinks.look(name, "", "/status", "/tasks", "/offsets")
    sinks.rest.call("DELETE", f"/connectors/{name}")


def fail(sinks: Sinks) -> None:
    """A sink that cannot write where it should."""
    name = "out-nowhere"
    sinks.create(name, config(file="missing/output.txt"))
    rest = sinks.rest
    eventually(
        lambda: rest.peek(f"/connectors/{name}/tasks/0/status").get("state") == "FAILED", within_s=rest.longest_wait_s
    )
    sinks.look(name, "/status", "/tasks/0/status", "/offsets")
    rest.call("DELETE", f"/connectors/{name}")


def run(rest: Recorder, bootstrap_servers: str) -> None:
    """Everything about sinks, in order."""
    fill(bootstrap_servers)
    sinks = Sinks(rest, bootstrap_servers)
    for part in (look_around, validate):
        part(rest)
    for act in (refuse_creation, live, move, begin_anew, match, verify, fail):
        act(sinks)
