"""The list of messages, compared with the sources of both sides: a name that only one of them knows is found here."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from fencepost.builtin.java import protocol
from fencepost.builtin.java.port import ChainStep, JavaClass, Location
from fencepost.builtin.java.protocol import BUFFER, EVENTS, OFFSETS, SERVICES, STEPS, Operation, encoded

PYTHON = Path(protocol.__file__).with_name("client")
JAVA = Path(protocol.__file__).with_name("jvm") / "fencepost" / "host"
READ = re.compile(r'\brequest\.(?:head\(\)\.)?(\w+)\((?:prefix \+ )?"([\w.]+)"')
WRITTEN = re.compile(r'\b(?:facts|found|head|answer|line|event)\.(?:put|putIfAbsent)\("(\w+)"')
RECORDS = {("buffer", "schemas"), ("buffer", "records"), ("number", "rows")}


def java(*names: str) -> str:
    """Return the sources of some classes of the host."""
    return "\n".join((JAVA / f"{name}.java").read_text() for name in names)


def requests(service: str) -> list[Operation]:
    found = SERVICES[service]
    return [found.opening, *found.operations.values()]


def answers() -> set[str]:
    """Return all names that the host writes: in answers, questions and events."""
    asked = [each for service in SERVICES.values() for each in service.questions.values()]
    operations = [each for service in SERVICES for each in requests(service)]
    names = {name for each in (*operations, *asked) for name in each.answer}
    events = {name for each in EVENTS.values() for name in each}
    return names | events | {*protocol.CALLBACKS, *protocol.THROWN, *protocol.ENVELOPE}


def cases(text: str) -> set[str]:
    return set(re.findall(r'case "(\w+)"', text))


def missing(names: Iterable[str], text: str) -> set[str]:
    return {name for name in names if f'"{name}"' not in text and f"'{name}'" not in text}


def test_each_service_of_the_list_is_one_of_javas() -> None:
    text = java("Sessions")
    assert cases(text[text.index("Service service(") : text.index("private Answer control(")]) == SERVICES.keys()


@pytest.mark.parametrize("service", SERVICES)
def test_operations_of_a_service_are_the_cases_of_its_java_class(service: str) -> None:
    text = java(SERVICES[service].java[0])
    text = text[text.index("private Answer control(" if service == protocol.CONTROL else "Answer call(") :]
    assert cases(text[: text.index("default ->")]) == SERVICES[service].operations.keys()


@pytest.mark.parametrize("service", SERVICES)
def test_java_reads_all_fields_of_requests_with_their_types_and_no_others(service: str) -> None:
    text = java(*SERVICES[service].java)
    found = {*READ.findall(text), *(("buffer", name) for name in re.findall(r'\(request, prefix \+ "(\w+)"', text))}
    found |= {("classes", "classes")} if "request.classes()" in text else set()
    found |= {("head", "subject")} if "Logs.setOwner(" in text else set()
    found |= RECORDS if "form.read(request" in text else set()
    found = {("head" if method == "get" else method, name) for method, name in found if name != "read.offsets"}
    fields = [field for each in requests(service) for field in each.fields.items()]
    assert found == {(kind.java, name) for name, kind in fields if not name.startswith("read.")}  # with a prefix


def test_shared_readers_of_requests_read_names_of_the_list() -> None:
    assert 'request.head().get("subject")' in java("Logs")
    assert set(READ.findall(java("Records"))) == RECORDS
    assert set(re.findall(r'described\.get\("(\w+)"\)', java("Step"))) == set(protocol.STEP) == set(ChainStep._fields)


def test_java_writes_no_name_that_is_not_in_the_list() -> None:
    files = {name for service in SERVICES.values() for name in service.java}
    text = java(*sorted(files), "Answer", "Events", "Sessions", "Logs", "Thrown")
    maps = [line for line in text.splitlines() if "Map.of(" in line]
    found = {*WRITTEN.findall(text), *(name for line in maps for name in re.findall(r'"(\w+)", ', line))}
    assert found <= answers() | EVENTS.keys()


@pytest.mark.parametrize("service", SERVICES)
def test_java_writes_all_names_of_answers_and_questions(service: str) -> None:
    asked = SERVICES[service].questions
    names = {name for each in (*requests(service), *asked.values()) for name in each.answer} | asked.keys()
    assert not missing(names, java(*SERVICES[service].java, "Session", "Acknowledgements"))


def test_java_sends_all_events_of_the_list() -> None:
    text = java("Logs", "Sessions", "ConnectorService", "Events")
    assert set(re.findall(r'"event", "(\w+)"', text)) == EVENTS.keys()
    assert not missing({name for each in EVENTS.values() for name in each}, text)
    assert not missing(protocol.THROWN, java("Thrown"))
    assert not missing(protocol.CALLBACKS, java("Callbacks"))


def test_python_reads_the_names_of_the_list() -> None:
    text = "\n".join(path.read_text() for path in PYTHON.glob("*.py"))
    read = set(re.findall(r'(?:found|event|described|about\.head|answer\.head|opened)\["(\w+)"\]', text))
    assert read <= answers()
    fields = [field for service in SERVICES for each in requests(service) for field in each.fields.items()]
    buffers = {name for name, kind in fields if kind is BUFFER}
    assert not missing(answers() - buffers - {*protocol.CALLBACKS}, text)


def test_request_has_only_fields_of_its_operation() -> None:
    poll = SERVICES["source"].operations["poll"]
    committed = [({"f": 1}, None)]
    assert encoded("poll", poll.fields, {"committed": committed}) == {"op": "poll", "committed": committed}
    with pytest.raises(KeyError, match="most_bytes"):
        encoded("poll", poll.fields, {"most_bytes": 1})


def test_values_are_encoded_by_their_kind() -> None:
    own = JavaClass("a.Step", Location("/plugins/a", ("/plugins/a/a.jar",)))
    assert OFFSETS.encoded([({"f": 1}, {"at": 2})]) == [({"f": 1}, {"at": 2})]
    (step,) = STEPS.encoded([ChainStep("transform", own, "transforms.a.", is_conditional=True)])
    assert step["java_class"] == ["a.Step", "/plugins/a", ("/plugins/a/a.jar",)]
    assert step["is_conditional"] is True
