"""What commands say of connectors: the words of the web pages, and which are exactly once."""

import json
from typing import Any

from fencepost.cli.connect import Access, Connect
from fencepost.cli.connector.view import all_connectors, await_running
from fencepost.cli.masking import Masking
from support.command_line import fencepost
from support.http_answers import Answer, Asked, HttpAnswers

LINE = "add exactly.once.source.support=enabled to the file of each worker"
AWAY = "the store is away\n\nFailing since 2026-11-29T07:51:28Z, and retrying"


def connector(name: str, kind: str, delivery: dict[str, Any], *tasks: dict[str, Any]) -> dict[str, Any]:
    """Return what REST says of one; a task is its state, its trace and figures."""
    statuses = [
        {"id": number, "state": task.pop("state", "RUNNING"), "worker_id": "w:1", **task.pop("status", {})}
        for number, task in enumerate(tasks)
    ]
    figures = [{"id": number, "kind": kind, **task} for number, task in enumerate(tasks)]
    return {
        "info": {"name": name, "config": {"connector.class": f"x.{name}"}, "tasks": [], "type": "sink"},
        "status": {"name": name, "connector": {"state": "RUNNING", "worker_id": "w:1"}, "tasks": statuses},
        "figures": {"tasks": figures, "kind": kind, "delivery": delivery},
    }


CONNECTORS = {
    "broken": connector("broken", "sink", {"exactly_once": False, "because": "it repeats"}, {}, {"state": "FAILED"}),
    "query": connector("query", "stream", {"exactly_once": True}, {"retrying": True, "status": {"trace": AWAY}}),
    "lines": connector("lines", "source", {"exactly_once": False, "because": "off", "remedy": LINE}, {}),
}


def answer(asked: Asked) -> Answer:
    path, _, query = asked.path.partition("?")
    parts = path.split("/")[2:]
    if not parts:
        return Answer(CONNECTORS if query else list(CONNECTORS))
    one = CONNECTORS.get(parts[0])
    if one is not None and parts[1:] in ([], ["status"], ["figures"]):
        return Answer(one[parts[1] if len(parts) > 1 else "info"])
    return Answer({"message": "HTTP 404 Not Found"}, 404)


def shown(*command: object) -> list[list[str]]:
    with HttpAnswers(answer) as served:
        return [line.split() for line in fencepost(*command, "--url", served.url).out.splitlines()]


def test_get_shows_the_worst_state_the_kind_and_the_delivery() -> None:
    assert shown("get")[1:] == [
        ["broken", "sink", "FAILED", "1", "FAILED,", "1", "RUNNING", "at", "least", "once", "w:1", "broken"],
        ["lines", "source", "RUNNING", "1", "RUNNING", "at", "least", "once", "w:1", "lines"],
        ["query", "stream", "RETRYING", "1", "RETRYING", "exactly", "once", "w:1", "query"],
    ]


def test_get_filters_by_shown_words_and_by_rest_words() -> None:
    assert [row[0] for row in shown("get", "--state", "retrying")[1:]] == ["query"]
    assert [row[0] for row in shown("get", "--state", "failed")[1:]] == ["broken"]
    assert [row[0] for row in shown("get", "--type", "stream")[1:]] == ["query"]
    assert [row[0] for row in shown("get", "--type", "sink")[1:]] == ["broken", "lines", "query"]


def test_status_shows_reasons_for_retries_and_for_missing_exactly_once() -> None:
    with HttpAnswers(answer) as served:
        text = fencepost("status", "--url", served.url).out
    (row,) = [line for line in text.splitlines() if "RETRYING" in line]
    assert row.endswith("the store is away")
    assert "  broken: at least once: it repeats" in text
    assert f"  lines: at least once: off; {LINE}" in text
    assert "query: exactly" not in text


def test_status_as_json_has_kafka_connects_form() -> None:
    with HttpAnswers(answer) as served:
        found = json.loads(fencepost("status", "query", "-o", "json", "--url", served.url).out)
    assert found == [CONNECTORS["query"]["status"]]


def test_describe_begins_with_kind_state_and_delivery() -> None:
    with HttpAnswers(answer) as served:
        first, *_ = fencepost("describe", "lines", "--url", served.url).out.splitlines()
        assert first == f"lines: a source, RUNNING, at least once: off; {LINE}"
        retried = fencepost("describe", "query", "--url", served.url).out
    assert "0  RETRYING  w:1" in retried


def test_describe_shows_known_warnings_without_validating_the_config() -> None:
    """A validation of a Java connector takes seconds, and may ask a database."""
    figures = CONNECTORS["lines"]["figures"] | {"warnings": ["toppic: nothing reads it"]}

    def warned(asked: Asked) -> Answer:
        return Answer(figures) if asked.path.endswith("/figures") else answer(asked)

    with HttpAnswers(warned) as served:
        text = fencepost("describe", "lines", "--url", served.url).out
        assert {asked.method for asked in served.asked} == {"GET"}
    assert text.endswith("Warnings:\n  toppic: nothing reads it\n")


def test_kafka_connect_workers_give_only_states_and_types() -> None:
    bare = {name: {key: one[key] for key in ("info", "status")} for name, one in CONNECTORS.items()}
    with HttpAnswers(lambda asked: Answer(bare if "?" in asked.path else list(bare))) as served:
        with Connect(Access(served.url)) as connect:
            views = all_connectors(connect)
    assert [(view.kind, view.word, view.delivery[0]) for view in views] == [
        ("sink", "FAILED", "-"), ("sink", "RUNNING", "-"), ("sink", "RUNNING", "-")
    ]  # fmt: skip


def test_apply_reports_the_call_in_which_a_starting_task_is_stuck() -> None:
    starting = "Starting since 2026-11-29T08:00:00Z, inside MySink.start (/plugins/sink.py, line 12)"
    tasks = [{"id": 0, "state": "UNASSIGNED", "trace": starting}]
    status = {"connector": {"state": "RUNNING"}, "tasks": tasks}
    with HttpAnswers(lambda _: Answer(status)) as served, Connect(Access(served.url)) as connect:
        late = await_running(connect, {"c": None}, 0, Masking(), pause=lambda _: None)
    assert late == {"c": f"RUNNING, UNASSIGNED after 0 s: {starting}"}


def test_apply_waits_for_a_task_that_retries() -> None:
    with HttpAnswers(answer) as served, Connect(Access(served.url)) as connect:
        late = await_running(connect, {"query": None, "lines": None}, 0, Masking(), pause=lambda _: None)
    assert late == {"query": "RUNNING, RETRYING after 0 s: the store is away"}


def test_delete_warns_about_a_replication_slot_that_remains() -> None:
    one = connector("cdc", "source", {"exactly_once": True}, {})
    one["info"]["config"] = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "slot.name": "s1"}

    def served_one(asked: Asked) -> Answer:
        last = asked.path.rpartition("/")[2]
        return Answer(one.get(last, one["info"]))

    with HttpAnswers(served_one) as served:
        done = fencepost("delete", "cdc", "--url", served.url, typed="n\n")
        assert {asked.method for asked in served.asked} == {"GET"}
    assert "pg_drop_replication_slot('s1')" in done.err
