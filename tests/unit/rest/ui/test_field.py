from typing import Any

import pytest

from fencepost.rest.ui.config import config_form, sent_config


def key(name: str, **more: Any) -> dict[str, Any]:
    value = {"name": name, "errors": [], "recommended_values": [], "visible": True} | more.pop("value", {})
    declared = {"type": "STRING", "importance": "LOW", "required": False, "group": "G", "order_in_group": 1}
    return {"definition": {"name": name, **declared, **more}, "value": value}


def form(
    config: dict[str, str | None],
    *keys: dict[str, Any],
    secrets: tuple[str, ...] = (),
    stored: dict[str, str | None] | None = None,
) -> Any:
    report = {"configs": list(keys), "groups": ["G"]}
    return config_form(report, {"connector.class": "x.Y", **config}, secrets, config if stored is None else stored)


def test_unimportant_unset_keys_are_folded_away() -> None:
    keys = [key("low"), key("high", importance="HIGH"), key("set"), key("must", required=True)]
    (group,) = form({"set": "1"}, *keys, key("wrong", value={"errors": ["no"]})).groups
    assert [one.name for one in group.advanced] == ["low"]
    assert {one.name for one in group.basic} == {"high", "set", "must", "wrong"}


def test_fields_are_in_the_order_of_their_group() -> None:
    (group,) = form({}, key("b", order_in_group=2), key("none", order_in_group=-1), key("a", order_in_group=1)).groups
    assert [one.name for one in group.fields] == ["a", "b", "none"]


def test_a_key_that_is_invisible_is_shown_only_if_it_is_set() -> None:
    hidden = key("h", value={"visible": False})
    assert form({}, hidden).fields == []
    assert [one.name for one in form({"h": "1"}, hidden).fields] == ["h"]


def test_form_contains_no_secret() -> None:
    made = form({"p": "hunter2", "q": "hunter3", "r": "plain"}, key("p", type="PASSWORD"), secrets=("q",))
    assert "hunter" not in str(made)
    assert made.more == "q=[hidden]\nr=plain\n"
    assert made.fields[0].is_kept


def test_hidden_secrets_of_a_form_keep_their_stored_values() -> None:
    stored = {"p": "hunter2", "q": "hunter3", "empty": "", "gone": "x"}
    fields = {"c.p": "", "kept.p": "1", "c.empty": "", "c.gone": "", "more": "q=[hidden]\nnew=1"}
    assert sent_config(fields, stored).config == {"p": "hunter2", "empty": "", "q": "hunter3", "new": "1"}


def test_a_new_secret_replaces_the_old_one() -> None:
    assert sent_config({"c.p": "new", "kept.p": "1"}, {"p": "old"}).config == {"p": "new"}


@pytest.mark.parametrize(
    "value", ["a=b", "one\ntwo", "x ", "", " ", "  x", "C:\\in\\", "\\\\", "a\\\n\nb\\", "x\n", "\n"]
)
def test_other_keys_of_a_form_come_back_unchanged(value: str) -> None:
    made = form({"k": value, "next": "1"})
    assert sent_config({"more": made.more.replace("\n", "\r\n")}, {}).config == {"k": value, "next": "1"}


def test_line_without_key_and_value_is_named_and_comes_back_in_the_form() -> None:
    sent = sent_config({"more": "a=1\nnonsense\nb=2"}, {})
    assert sent.faults == ["Line 2 of the other keys is not key=value"]
    report = {"configs": [], "groups": []}
    assert config_form(report, sent.config, (), {}, sent.unread).more == "a=1\nb=2\nnonsense\n"


def test_a_secret_that_was_typed_and_not_stored_has_to_be_typed_again() -> None:
    stored: dict[str, str | None] = {"p": "[hidden]", "q": "[hidden]"}
    made = form({"p": "new", "q": "new"}, key("p", type="PASSWORD"), secrets=("p", "q"), stored=stored)
    assert (made.fields[0].is_kept, made.fields[0].is_lost, made.more) == (False, True, "q=[type it again]\n")
    sent = sent_config({"c.p": "", "again.p": "1", "more": made.more}, stored)
    assert [fault.partition(":")[0] for fault in sent.faults] == ["p", "q"]
    assert sent_config({"c.p": "new", "again.p": "1", "more": "q=new"}, stored).config == {"p": "new", "q": "new"}
