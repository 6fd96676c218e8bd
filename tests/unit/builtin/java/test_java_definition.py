"""Kafka Connect's JSON of settings and validations, as ours."""

from fencepost.builtin.java.questions import setting_of, settings_of, values_of
from fencepost.config.setting import Importance, Type
from support.java_host import definition


def test_setting_has_the_attributes_of_its_java_definition() -> None:
    made = setting_of(definition("size", "INT", "3", documentation="How many.", group="Basics", dependents=["unit"]))
    assert (made.key, made.kind, made.default_value, made.is_required) == ("size", Type.INT, 3, False)
    assert (made.doc, made.group, made.dependents, made.importance) == (
        "How many.",
        "Basics",
        ("unit",),
        Importance.HIGH,
    )
    assert settings_of([definition("url")])["url"].is_required


def test_validation_result_may_omit_the_value_of_a_declared_key() -> None:
    """Debezium's validation returns values of the keys that it checks, and of no others."""
    (found,) = values_of({"configs": [{"definition": definition("url"), "value": None}]})
    assert (found.setting.key, found.value, found.errors, found.is_visible) == ("url", None, (), True)


def test_undeclared_key_with_an_error_is_shown() -> None:
    wrong = {"name": "old", "value": "1", "recommended_values": [], "errors": ["it is gone"], "visible": True}
    right = {**wrong, "name": "note", "errors": []}
    (found,) = values_of({"configs": [{"definition": None, "value": wrong}, {"definition": None, "value": right}]})
    assert (found.setting.key, found.value, found.errors) == ("old", "1", ("it is gone",))
