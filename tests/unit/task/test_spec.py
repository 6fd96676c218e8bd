"""What travels between worker and slot."""

from dataclasses import replace

import orjson

from fencepost.task.spec import Admission, RunState, TaskReport, TaskSpec

SPEC = TaskSpec(
    connector="c-with-dashes",
    task=3,
    generation=17,
    incarnation="abc",
    connector_config={"name": "c", "optional": None},
    task_config={"file": "f"},
    producer_conf={"bootstrap.servers": "b:1", "sasl.password": "hush", "queue.buffering.max.ms": 5},
    offsets_topic="offsets",
    group_id="g",
    transactional_id="g-c-3",
    boundary="interval",
    plugin_path=("a", "b"),
)


def test_a_spec_survives_json() -> None:
    assert TaskSpec.from_json(orjson.loads(orjson.dumps(SPEC.to_json()))) == SPEC


def test_a_spec_of_a_newer_worker_is_understood() -> None:
    assert TaskSpec.from_json({**SPEC.to_json(), "a.new.field": 1}) == SPEC


def test_a_spec_names_its_task_and_its_guarantee() -> None:
    assert SPEC.id == "c-with-dashes-3"
    assert SPEC.is_exactly_once
    assert not replace(SPEC, transactional_id=None).is_exactly_once


def test_no_secret_is_shown() -> None:
    config = {"connection.password": "hush too"}
    assert "hush" not in repr(replace(SPEC, connector_config=config, task_config=config))


def test_a_report_survives_json() -> None:
    report = TaskReport("c", 0, "abc", RunState.FAILED.value, "trace", {"commits": 3}, ("t", "u"))
    data = orjson.loads(orjson.dumps(report.to_json()))
    assert TaskReport(**{**data, "topics": tuple(data["topics"])}) == report


def test_an_admission_survives_json() -> None:
    admission = Admission(True, "", (({"f": "a"}, {"n": 1}),))
    data = {"is_admitted": True, "reason": "", "offsets": [[{"f": "a"}, {"n": 1}]]}
    assert Admission.from_json(orjson.loads(orjson.dumps(data))) == admission
    assert not Admission.from_json({"is_admitted": False}).is_admitted
