"""The differences from Kafka Connect 4.3.1 that stay, each with its reason. Whatever is not here is a failure."""

import json
from typing import Any, NamedTuple

from replay import Exchange


class Accepted(NamedTuple):
    """An answer of ours that differs: to which request, what it is, and why.

    `mark` is in what was sent or recorded as the answer; `message` is how ours begins (empty: there is none).
    """

    method: str
    path: str
    mark: str
    statuses: tuple[int, ...]
    message: str
    reason: str
    depends_on_time: bool = False

    def fits(self, exchange: Exchange) -> bool:
        return (self.method, self.path) == (exchange["method"], exchange["path"]) and self.mark in _text(exchange)

    def allows(self, ours: Exchange) -> bool:
        message = ours["response"].get("message") if isinstance(ours["response"], dict) else None
        return ours["status"] in self.statuses and (message or "").startswith(self.message)


_VALIDATE = "/connector-plugins/FileStreamSource/config/validate"
_NO_JSON = "Cannot deserialize value: the request body is not valid JSON"
_NO_OBJECT = "Cannot deserialize value of type"
_NOT_FOUND = "Failed to find any class that implements Connector and which name matches "
_IN_JAVA = "a 400 that says what to send, instead of a 500 of a Java exception"
_WORDING = "the words after the first ones, which clients test for, are those of Java's JSON reader"
_NOT_THERE = "a 400 that says what is not there, before anything is changed (E12)"
_VALIDATE_SINK, _SINK_OFFSETS = "/connector-plugins/FileStreamSink/config/validate", "/connectors/out-words/offsets"
_OWN_LIST = "the list after it is of what we ship, by name"

ANSWERS = (
    Accepted("PUT", _VALIDATE, '{"file": "input.txt"}', (400,), "Connector config contains no connector", _IN_JAVA),
    Accepted("PUT", "/connector-plugins/Nonsense/config/validate", "", (400,), _NOT_FOUND + "Nonsense", _IN_JAVA),
    Accepted("POST", "/connectors", '"config": null', (400,), 'The request body lacks "config"', _IN_JAVA),
    Accepted("POST", "/connectors", '{"name": "bad"}', (400,), 'The request body lacks "config"', _IN_JAVA),
    Accepted("POST", "/connectors", "''", (400,), 'The request body lacks "name" and "config"', _IN_JAVA),
    Accepted("PUT", _VALIDATE, "{nonsense", (500,), _NO_JSON, _WORDING),
    Accepted("POST", "/connectors", "{nonsense", (500,), _NO_JSON, _WORDING),
    Accepted("PUT", _VALIDATE, "'[]'", (500,), _NO_OBJECT, _WORDING),
    Accepted("PUT", "/connectors/bad/config", "'[]'", (500,), _NO_OBJECT, _WORDING),
    Accepted("POST", "/connectors", '"initial_state": "nonsense"', (500,), "Cannot construct instance of", _WORDING),
    Accepted("POST", "/connectors", '"nonsense": 1', (500,), 'Unrecognized field "nonsense" (class ', _WORDING),
    Accepted("POST", "/connectors", "com.example.Missing", (400,), _NOT_FOUND + "com.example.Missing", _OWN_LIST),
    Accepted(
        "POST", "/connectors", '"config": {}', (400,), "Connector config with the keys ['name'] contains no connector",
        "the config is not repeated: a value may be a secret (E11)",
    ),
    Accepted(
        "POST", "/connectors", '"name": "null"', (400,), "Connector configuration is invalid",
        "a null is refused (E12); Kafka Connect takes it and the connector fails",
    ),
    Accepted("DELETE", "/connectors/null", "", (404,), "Connector null not found", "it was refused, see above"),
    Accepted(
        "POST", "/connectors/lines/restart?includeTasks=true&onlyFailed=false", '"version": null', (202,), "",
        "Kafka Connect had not heard the version of the start before this one yet", True,
    ),
    Accepted(
        "POST", "/connectors/lines/restart?includeTasks=true&onlyFailed=true", "", (202,), "",
        "Kafka Connect was still at the restart before this one", True,
    ),
    Accepted(
        "GET", "/connectors/lines/topics", '["lines", "more-lines"]', (200,), "",
        "asked right after the reset: Kafka Connect had not read its tombstones yet", True,
    ),
    Accepted(
        "POST", "/connectors/lines/tasks/0/restart", "409", (409,), "Cannot complete request momentarily due to stale",
        "a stopped connector has no tasks; Kafka Connect misses a leader instead",
    ),
    Accepted(
        "GET", "/connectors/many-tasks/status", "", (200, 404), "",
        "asked right after the deletion: Kafka Connect had not read its tombstones yet", True,
    ),
    Accepted(
        "POST", "/connectors/failing/restart?includeTasks=true&onlyFailed=true", "", (202,), "",
        "what is restarting shows no trace of its last life",
    ),
    Accepted(
        "PUT", "/admin/loggers/org.apache.kafka.connect.file", "", (200,), "",
        "Java's loggers below that one are not here",
    ),
    Accepted(
        "PUT", _VALIDATE_SINK, '"consumer.override.group.id": "others"', (200,), "",
        "Kafka Connect lists this override, which no plug-in declares, also where nothing is wrong with it",
    ),
    Accepted(
        "PUT", _VALIDATE_SINK, '"topics": null', (200,), "",
        "that it is null is said once; Kafka Connect adds that it is null, and missing",
    ),
    Accepted("PATCH", _SINK_OFFSETS, '"kafka_partition": -1', (400,), "Topic sunk-words has no part", _NOT_THERE),
    Accepted("PATCH", _SINK_OFFSETS, '"kafka_offset": -1', (400,), "Offset -1 of topic sunk-words", _NOT_THERE),
    Accepted("PATCH", _SINK_OFFSETS, '9}, "offset": {"kafka', (400,), "Topic sunk-words has no part", _NOT_THERE),
    Accepted("PATCH", _SINK_OFFSETS, '"nowhere", "kafka_partition": 0}, "offset": {', (400,), "Topic nowh", _NOT_THERE),
    Accepted("PATCH", _SINK_OFFSETS, '{"offsets": "x"}', (500,), _NO_OBJECT, _WORDING),
    Accepted(
        "PATCH", _SINK_OFFSETS, '"kafka_offset": 99', (400,), "Offset 99 of topic sunk-words",
        "who goes on there would skip records without a word; Kafka Connect leaves it to auto.offset.reset",
    ),
)  # fmt: skip

# Errors of validation that only one of the two has.
OURS_ALONE = {
    'Missing required configuration "file" which has no default value.': "a worker has no standard input to read",
    "Invalid value  for configuration file: must not be empty": "the same",
    "Null value can not be supplied as the configuration value.": "Kafka Connect says so too, but not of every key",
}
THEIRS_ALONE = {
    "Invalid value null for configuration tasks.max: Value must be non-null": "said already: x is not a number",
    "Invalid value null for configuration regex: Invalid regex:": "said already: it is missing",
}

# Errors that go on in the words of Java's or Python's own library.
WORDED_BY_LIBRARIES = "Invalid regex: "

# Keys that only we declare.
KEYS_DECLARED_BY_US = {"id": "what a VerifiableSink gives to its tasks is a setting, as all that a task reads"}

# Keys of the internal topics that only one of the two has.
KEYS_OURS_ALONE = {
    "tasks-fencing-out-": "each start waits for the record of its generation, a sink's too; Kafka Connect skips those",
    "fencepost-": "our own kinds of records; Kafka Connect skips them",
    "status-topic-refused/by/kafka:connector-failing": "belongs to what was sent instead, see FAILS_LATER",
}
KEYS_THEIRS_ALONE = {
    "connector-null": "a config with a null is refused",
    "target-state-null": "the same",
    "status-connector-null": "the same",
}
# Values that only Kafka Connect's side of a key has.
VALUES_THEIRS_ALONE: dict[str, tuple[Any, str]] = {}
VALUES_OURS_ALONE: dict[str, tuple[Any, str]] = {
    "status-task-failing-0": ("RUNNING", "what was sent instead fails with its first record, see FAILS_LATER"),
}


def accepted(expected: Exchange) -> Accepted | None:
    """The accepted difference of a recorded exchange, if there is one."""
    return next((one for one in ANSWERS if one.fits(expected)), None)


def _text(exchange: Exchange) -> str:
    sent = json.dumps(exchange["body"]) if exchange["raw_body"] is None else repr(exchange["raw_body"])
    return f"{sent} {json.dumps(exchange['response'])}"
