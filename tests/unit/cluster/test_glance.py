"""One word for each state and kind."""

from typing import Any

import pytest

from fencepost.cluster.glance import connector_word, delivery_word, kind_word, task_words, why_not_exactly_once


def connector(*tasks: str, state: str = "RUNNING", figures: dict[str, Any] | None = None) -> dict[str, Any]:
    found = [{"id": number, "state": task} for number, task in enumerate(tasks)]
    status = {"connector": {"state": state}, "tasks": found, "type": "sink"}
    return {"status": status, "info": {"type": "sink"}, "figures": figures}


def task(number: int, **figures: Any) -> dict[str, Any]:
    return {"id": number, "kind": "sink", **figures}


@pytest.mark.parametrize(
    ("state", "tasks", "word"),
    [
        ("RUNNING", ("RUNNING", "FAILED"), "FAILED"),
        ("RUNNING", ("RUNNING", "UNASSIGNED"), "UNASSIGNED"),
        ("UNASSIGNED", (), "UNASSIGNED"),
        ("PAUSED", ("PAUSED", "RUNNING"), "PAUSED"),
        ("STOPPED", (), "STOPPED"),
        ("RUNNING", ("RUNNING",), "RUNNING"),
        ("DESTROYED", (), "DESTROYED"),
    ],
)
def test_connector_is_shown_with_the_worst_state_of_its_tasks(state: str, tasks: tuple[str, ...], word: str) -> None:
    assert connector_word(connector(*tasks, state=state)) == word


def test_running_task_is_shown_as_retrying_or_stuck() -> None:
    figures = {"tasks": [task(0, retrying=True), task(1, stands_still=True, retrying=True), task(2, retrying=True)]}
    found = connector("RUNNING", "RUNNING", "FAILED", figures=figures)
    assert task_words(found) == ["RETRYING", "STANDS STILL", "FAILED"]
    found["status"]["tasks"].pop()
    assert connector_word(found) == "STANDS STILL"


def test_tasks_without_figures_are_shown_with_their_rest_states() -> None:
    figures = {"tasks": [{"id": 0, "kind": None, "retrying": None}]}
    assert task_words(connector("RUNNING", "PAUSED", figures=figures)) == ["RUNNING", "PAUSED"]


def test_connector_kind_falls_back_to_the_rest_type() -> None:
    assert kind_word(connector(figures={"tasks": [], "kind": "stream"})) == "stream"
    assert kind_word(connector(figures={"tasks": [], "kind": None})) == "sink"
    assert kind_word({"status": {}}) == "unknown"


@pytest.mark.parametrize(
    ("delivery", "word", "why"),
    [
        (None, "-", None),
        ({"exactly_once": True, "because": None, "remedy": None}, "exactly once", None),
        ({"exactly_once": False, "because": "off", "remedy": "add x"}, "at least once", "off; add x"),
        ({"exactly_once": None, "because": "not asked", "remedy": None}, "not known", "not asked"),
    ],
)
def test_delivery_guarantee_is_shown_with_its_reason(
    delivery: dict[str, Any] | None, word: str, why: str | None
) -> None:
    found = connector(figures={"tasks": [], "delivery": delivery})
    assert (delivery_word(found), why_not_exactly_once(found)) == (word, why)
