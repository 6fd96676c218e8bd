"""What travels between worker and slot."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.message import (
    Admission,
    AdmissionRequest,
    Directive,
    Directives,
    DirectivesRequest,
    LostTask,
    Registration,
    Reports,
    RunState,
    TaskCopies,
    TaskReport,
    Verb,
)
from fencepost.task.channel.split_message import (
    EpochOutput,
    EpochReading,
    RunRequest,
    SplitAdmission,
    SplitCopies,
    SplitExpiry,
    SplitReport,
    SplitRun,
    SplitUnchanged,
    TemporaryFailure,
)
from fencepost.task.channel.task_spec import (
    CONSUMER,
    ClientRecipe,
    CommitSpec,
    LookUpSpec,
    OutputSpec,
    References,
    TaskSpec,
)

SPEC = TaskSpec(
    connector="c-with-dashes",
    task=3,
    generation=17,
    incarnation="abc",
    connector_config={"name": "c", "optional": None},
    task_config={"file": "f"},
    look_up=LookUpSpec(
        ("a", "b"),
        References(
            {"config.providers": "env"},
            {"url": "${env:A}"},
            {"file": "${env:B}"},
            (ClientRecipe("sink", {"client.id": "c"}, {"group.id": "${env:G}"}, ("g", "c"), {"x": "y"}, CONSUMER),),
            5_000,
        ),
    ),
    output=OutputSpec(
        producer_conf={"bootstrap.servers": "b:1", "sasl.password": "hush", "queue.buffering.max.ms": 5},
        offsets_topic="offsets",
        transactional_id="g-c-3",
    ),
    commits=CommitSpec(boundary="interval"),
)


def test_a_spec_survives_json() -> None:
    assert TaskSpec.from_json(orjson.loads(orjson.dumps(SPEC.to_json()))) == SPEC


def test_a_spec_of_a_newer_worker_is_understood() -> None:
    assert TaskSpec.from_json({**SPEC.to_json(), "a.new.field": 1}) == SPEC


def test_a_spec_names_its_task_and_its_guarantee() -> None:
    assert SPEC.id == "c-with-dashes-3"
    assert SPEC.is_exactly_once
    assert not replace(SPEC, output=replace(SPEC.output, transactional_id=None)).is_exactly_once


def test_repr_of_a_task_spec_shows_no_secret() -> None:
    config = {"connection.password": "hush too"}
    assert "hush" not in repr(replace(SPEC, connector_config=config, task_config=config))


def test_repr_of_an_epoch_reading_shows_no_secret_of_a_registry() -> None:
    assert "hush" not in repr(EpochReading({}, registry={"basic.auth.user.info": "me:hush"}))


def test_a_report_survives_json() -> None:
    report = TaskReport("c", 0, "abc", RunState.FAILED, "trace", {"commits": 3}, ("t", "u"))
    data = orjson.loads(orjson.dumps(report.to_json()))
    assert TaskReport.from_json(data) == report


COPY = OffsetCopy(b'["c",{"f":1}]', None, 5)
MESSAGES = [
    Registration("s", "0-a", 12, "host"),
    DirectivesRequest("s", "0-a", 7),
    Directives((Directive(1, Verb.START, spec=SPEC), Directive(2, Verb.PAUSE, "abc"), Directive(3, Verb.LEAVE))),
    Reports("s", "0-a", (TaskReport("c", 0, "abc", RunState.RUNNING, None, {"commits": 3}, ("t",)),)),
    Reports("s", "0-a", (), (LostTask(TaskReport("c", 0, "abc", RunState.LOST, "it ended"), ("abc", "b")),)),
    AdmissionRequest("c", 0, 17, "abc", ledger="l"),
    Admission(True, "", (({"f": "a"}, {"n": 1}),), (({"f": "a"}, "key"),), carried=((3, b'{"version":1}'),)),
    Admission(False, "a newer start", failure="no right"),
    TaskCopies("c", 0, "abc", (COPY,)),
    RunRequest("r"),
    SplitRun("r", {"bootstrap.servers": "b:1"}, "t", "o", (b"k1", b"k2"), None, 5, (b"k3",), True, True, {"id": 1}),
    TemporaryFailure("r", "a connection was lost"),
    SplitAdmission(True, "", ({"rows": 5}, None), (("traceparent", b"00-1-2-01"),)),
    SplitUnchanged(False),
    SplitCopies("r", (COPY,)),
    SplitReport("r", (1, 2), True, 0.5),
    SplitExpiry("r", 61.5),
    EpochReading({"group.id": "g"}, registry={"schema.registry.url": "http://r"}, led={"t": {"0": [6, 2]}}),
    EpochReading(
        {}, SPEC, EpochOutput({"linger.ms": 5}, "id", "g", "0a", "t", "", {"names": ["t"], "pattern": "", "closed": []})
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_channel_messages_survive_json_and_ignore_unknown_fields(message: Any) -> None:
    sent = {**orjson.loads(orjson.dumps(message.to_json())), "a.new.field": 1}
    assert type(message).from_json(sent) == message


def test_an_admission_survives_json() -> None:
    admission = Admission(True, "", (({"f": "a"}, {"n": 1}),))
    data = {"is_admitted": True, "reason": "", "offsets": [[{"f": "a"}, {"n": 1}]]}
    assert Admission.from_json(orjson.loads(orjson.dumps(data))) == admission
    assert not Admission.from_json({"is_admitted": False}).is_admitted
