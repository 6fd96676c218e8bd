"""What `apply` finds to do: hidden secrets are no difference, and a value to keep must be there."""

from typing import Any

import pytest

from fencepost.cli.connector.view import ConnectorView
from fencepost.cli.connector_file import WantedConnector
from fencepost.cli.file.plan import Action, Plan, plan
from fencepost.cli.masking import Masking
from fencepost.secret.redaction import HIDDEN

STORED = {"connector.class": "X", "name": "c", "topic": "t"}


def view(state: str = "RUNNING", **config: str) -> ConnectorView:
    more = {key.replace("_", "."): value for key, value in config.items()}
    return ConnectorView("c", {"config": {**STORED, **more}}, {"connector": {"state": state}, "tasks": []})


def planned(present: list[ConnectorView], state: str | None = None, **config: Any) -> Plan:
    how = {key: config.pop(key) for key in ("sends_secrets", "owned") if key in config}
    more = {key.replace("_", "."): value for key, value in config.items()}
    return plan([WantedConnector("f", "c", {**STORED, **more}, state)], present, Masking(), **how)


def test_plain_secret_with_a_hidden_stored_value_is_no_difference() -> None:
    found = planned([view(db_password=HIDDEN)], db_password="s3cret")
    assert (found.steps[0].action, found.steps[0].uncompared) == (Action.NONE, ["db.password"])
    sent = planned([view(db_password=HIDDEN)], db_password="s3cret", sends_secrets=True).steps[0]
    assert (sent.action, sent.config["db.password"]) == (Action.CHANGE, "s3cret")
    assert "s3cret" not in str(sent.to_json())


def test_a_reference_in_place_of_a_hidden_secret_is_a_difference() -> None:
    [change] = planned([view(db_password=HIDDEN)], db_password="${env:DB}").steps[0].changes
    assert (change.key, change.after) == ("db.password", "${env:DB}")


@pytest.mark.parametrize("stored", [HIDDEN, "as Kafka Connect shows it"])
def test_placeholder_for_a_stored_value_keeps_that_value(stored: str) -> None:
    for kept in ("${fill:db.password}", HIDDEN):
        found = planned([view(db_password=stored)], db_password=kept, topic="other").steps[0]
        assert (found.config["db.password"], [change.key for change in found.changes]) == (stored, ["topic"])


@pytest.mark.parametrize("value", ["${fill:db.password}", HIDDEN, "********"])
def test_placeholder_without_a_stored_value_is_a_fault_that_names_the_key(value: str) -> None:
    for present in ([], [view()]):
        [fault] = planned(present, db_password=value).faults
        assert (fault.name, fault.key) == ("c", "db.password")


def test_secrets_in_differences_are_hidden_by_key_and_by_url_form() -> None:
    found = planned([view(url="jdbc:x://u:0ld-pw@h")], url="jdbc:x://u:n3w-pw@h", db_password="s3cret", note="here")
    text = str(found.steps[0].to_json())
    assert not [secret for secret in ("0ld-pw", "n3w-pw", "s3cret") if secret in text], text


@pytest.mark.parametrize(
    ("wanted", "current", "brought_to"),
    [
        ("PAUSED", "RUNNING", "PAUSED"), ("PAUSED", "PAUSED", None), ("RUNNING", "STOPPED", "RUNNING"),
        ("RUNNING", "FAILED", None), ("RUNNING", "UNASSIGNED", None), (None, "STOPPED", None),
    ],
)  # fmt: skip
def test_apply_changes_a_state_only_if_a_file_sets_it(wanted: str | None, current: str, brought_to: str | None) -> None:
    assert planned([view(current)], wanted).steps[0].state == brought_to


def test_apply_deletes_only_connectors_that_match_the_owned_names() -> None:
    others = [ConnectorView(name, {"config": {}}, {}) for name in ("old-a", "other")]
    assert [step.name for step in planned([view(), *others]).of(Action.DELETE)] == []
    assert [step.name for step in planned([view(), *others], owned=["old-*"]).of(Action.DELETE)] == ["old-a"]


def test_new_connector_is_validated_even_if_its_config_is_empty() -> None:
    """Without validation it is refused only after other connectors have been created."""
    new = plan([WantedConnector("f", "c", {"name": "c"})], [], Masking()).steps[0]
    assert (new.action, new.is_config_changed) == (Action.CREATE, True)
