"""What Kafka Connect 4.3.1 says of its plug-ins, and of configs with each of them, is what we say.

`tests/oracle/record_plugins.py` recorded the answers. Whatever differs is listed here with its reason, and on the
migration page.
"""

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from fencepost import plugin as own_plugins
from fencepost.cluster.errors import OperationError
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginRegistry
from fencepost.rest.response import status_of
from fencepost.worker.operation.plugin import Plugins
from oracle.plugin_scenario import COLUMNS, row
from oracle.record import WORKER
from support.settings import SETTINGS

FIXTURE = Path(__file__).parents[3] / "fixtures" / "connect-4.3.1" / "plugins.json"
RECORDED = json.loads(FIXTURE.read_text())
KAFKAS_VERSION = "4.3.1"
Row = dict[str, Any]

# Keys that only one of the two declares.
OF_VERIFIABLES = {"throughput", "id", "topic", "complete.record.data", "name"}
"""What the verifiable connectors give to their tasks is a setting, as is all that a task reads."""
OF_OUR_OWN = {"blacklist", "whitelist"}
"""Old names of ReplaceField's settings, which Kafka 4 no longer reads."""

# Columns of keys that differ.
COLUMNS_THAT_DIFFER = {
    ("file", "required"): "a worker has no standard input to read, and no standard output to write",
    ("producer.override.acks", None): "overrides are shown without their values, which may be secrets, nor definitions",
    ("consumer.override.x", "value"): "the same",
}

# Answers that differ in other ways: how what was asked ends, and why.
ANSWERS_THAT_DIFFER = {
    "transforms=a,,b": "an empty alias is left out",
    "topic.creation.default.partitions=1": "a missing number of replicas is reported; there the connector fails",
    "connector.plugin.version=": "an empty requirement cannot be read; Kafka Connect takes it for the range [,]",
    "key.converter=None extra=None": "a null counts as no value, so the version is that of the worker's converter",
    "key.converter=org.apache.kafka.connect.storage.SimpleHeaderConverter": "it is no converter of keys: no such class",
    "validate key.converter.plugin.version=9.9": "it is compared with the worker's converter, which has another one",
}

# Beginnings of errors that only one of the two has. Kafka Connect's plug-ins check these when a task starts, and fail.
ERRORS_OF_OURS_ALONE = (
    "'fields' config must have the same number",
    "TimestampConverter requires format option",
    "No field insertion configured",
    "Neither schema name nor version configured",
    "Invalid value null for configuration static.value: No value",
    "Invalid value p for configuration predicate: there is no such alias",
    "Invalid value -1 for configuration schemas.cache.size",
    "Invalid value [ for configuration ",  # where Kafka Connect gives the reason alone, with two keys
)
ERRORS_OF_THEIRS_ALONE = (
    "Invalid value null for configuration ",  # said already: it is missing, or cannot be read
    "Configuration 'fields' values must not be null.",
    "Unbounded range: [",
)

# Errors in other words: how theirs begins, and ours.
IN_OTHER_WORDS = {
    "Invalid value java.lang.IllegalArgumentException: No enum constant": "Invalid value [a:nonsense] for config",
    "Configuration 'headers' must not be empty.": "Invalid value [] for configuration headers: must not be empty",
    "Configuration 'fields' must not be empty.": "Invalid value [] for configuration fields: must not be empty",
    "Invalid value  for configuration name: String must be non-empty": "Invalid value  for configuration name: must",
}
_PREFIX = re.compile(r"for configuration (transforms\.x|predicates\.p|(?:key|value|header)\.converter)\.(?!plugin)")
_WORDED_BY_LIBRARIES = "Invalid regex: "


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return Plugins(WorkerConfig(SETTINGS | {key: WORKER[key] for key in ("key.converter", "value.converter")}))


@pytest.fixture(autouse=True)
def as_kafkas_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let built-in plug-ins have the version that Kafka's had, which requirements in the recorded configs name."""
    registry = PluginRegistry()
    monkeypatch.setattr(sys.modules[PluginRegistry.__module__], "__version__", KAFKAS_VERSION)
    monkeypatch.setattr(own_plugins, "_registry", registry)


def _id(answer: list[Any]) -> str:
    path, body = answer[:2]
    own = {k: v for k, v in (body or {}).items() if k not in ("connector.class", "name", "file", "topic")}
    return path.removeprefix("/connector-plugins/") + "".join(f" {k}={v}" for k, v in own.items())


def _theirs(said: Any) -> list[Row]:
    rows = said["rows"] if isinstance(said, dict) else said
    found = [dict(zip(COLUMNS, one, strict=True)) for one in rows]
    for one in found:
        if isinstance(one["recommended_values"], int):
            one["recommended_values"] = RECORDED["lists"][one["recommended_values"]]
    return found


def _ours(plugins: Plugins, path: str, body: dict[str, str | None] | None) -> list[Row]:
    name, _, query = path.removeprefix("/connector-plugins/").partition("?")
    name = name.partition("/")[0]
    if body is None:
        version = unquote(query.removeprefix("version=")) if query else None
        rows = [row(asdict(one), {}) for one in plugins.keys(name, version)]
    else:
        report = plugins.validate(name, body)
        assert report.error_count == sum(len(one.value.errors) for one in report.configs)
        rows = [row(one.definition and asdict(one.definition), asdict(one.value)) for one in report.configs]
    plain = json.loads(json.dumps(rows))
    return [dict(zip(COLUMNS, one, strict=True)) for one in plain]


def _names(rows: list[Row], *, without: set[str], is_sorted: bool) -> list[str]:
    names = [one["name"] for one in rows if one["name"].split(".x.")[-1] not in without]
    return sorted(names) if is_sorted else names


def _differences(theirs: Row, ours: Row) -> list[str]:
    name, found = theirs["name"], []
    for column in COLUMNS:
        t, o = theirs[column], ours[column]
        if t == o or (name, column) in COLUMNS_THAT_DIFFER or (name, None) in COLUMNS_THAT_DIFFER:
            continue
        if column == "recommended_values" and t == [] and not name.endswith("plugin.version"):
            continue  # of a key that takes one of a few words
        if column == "recommended_values" and set(t) <= set(o):
            continue  # there are classes that Kafka does not have
        if column == "errors" and _same_errors(t, o):
            continue
        found.append(f"{name}, {column}: {t} is {o}")
    return found


def _same_errors(theirs: list[str], ours: list[str]) -> bool:
    """Each of ours may go on where Kafka Connect's ends, with the next step, and names the whole key."""
    left = [IN_OTHER_WORDS.get(_beginning(t), _comparable(t)) for t in theirs]
    left = [t for t in left if not t.startswith(ERRORS_OF_THEIRS_ALONE)]
    is_missing = any(t.startswith("Missing required configuration") for t in left)
    cast = "Must specify at least one field to cast."  # said already if the list is missing
    left = [
        t if t != cast else f"Invalid value [] for configuration spec: {cast}"
        for t in left
        if t != cast or not is_missing
    ]
    right = [o for o in map(_comparable, ours) if not o.startswith(ERRORS_OF_OURS_ALONE)]
    return len(left) == len(right) and all(o.startswith(t) for t, o in zip(left, right, strict=True))


def _beginning(text: str) -> str:
    return next((one for one in IN_OTHER_WORDS if text.startswith(one)), "")


def _comparable(text: str) -> str:
    text = _PREFIX.sub("for configuration ", text)
    text = re.sub(r"version range \[(.+),\1\]", r"version range [\1]", text)
    text = text.replace(f"[{KAFKAS_VERSION}, {KAFKAS_VERSION}]", f"[{KAFKAS_VERSION}]")  # a class of two kinds
    before, colon, choices = text.partition("(case insensitive): ")
    text = before + colon + ", ".join(sorted(choices.split(", ")))
    return "".join(text.partition(_WORDED_BY_LIBRARIES)[:2])


_SUCCESSES = [one for one in RECORDED["answers"] if one[2] == 200]
_REFUSALS = [one for one in RECORDED["answers"] if one[2] != 200]


@pytest.mark.parametrize("answer", _SUCCESSES, ids=_id)
def test_answer_equals_kafka_connects_except_for_accepted_differences(answer: list[Any], plugins: Plugins) -> None:
    path, body, _, said = answer
    theirs, ours = _theirs(said), _ours(plugins, path, body)
    if _id(answer).endswith(tuple(ANSWERS_THAT_DIFFER)):
        assert any(_differences(t, o) for t, o in zip(theirs, ours, strict=False)) or len(theirs) != len(ours)
        return
    # In a definition, the keys that several transforms share come first here; those of a converter have no order.
    is_definition = body is None or "value.converter" in body or "key.converter" in body
    of_verifiables = OF_VERIFIABLES if "Verifiable" in path else set()
    own = _names(ours, without=of_verifiables | OF_OUR_OWN, is_sorted=is_definition)
    assert own == _names(theirs, without=of_verifiables, is_sorted=is_definition)
    by_name = {one["name"]: one for one in ours if one["name"] not in of_verifiables}
    found = [text for one in theirs if one["name"] in by_name for text in _differences(one, by_name[one["name"]])]
    assert found == []


@pytest.mark.parametrize("answer", _REFUSALS, ids=_id)
def test_request_that_kafka_connect_refuses_is_refused(answer: list[Any], plugins: Plugins) -> None:
    path, body, status, said = answer
    if status == 500:  # a version that cannot be read: here it is an error of its key
        errors = {one["name"]: one["errors"] for one in _ours(plugins, path, body) if one["errors"]}
        reason = said["message"].partition("Exception: ")[2]
        assert errors == {"connector.plugin.version": [errors["connector.plugin.version"][0]]}
        assert f"configuration connector.plugin.version: {reason.partition(':')[0]}" in str(errors)
        return
    with pytest.raises(OperationError) as caught:
        _ours(plugins, path, body)
    if path.endswith("version="):  # Kafka Connect takes an empty requirement for the range [,]
        assert status_of(caught.value) == 400
    else:
        assert status_of(caught.value) == status
        assert _comparable(caught.value.message).startswith(_comparable(said["message"]))
