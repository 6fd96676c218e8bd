"""Settings of Java plug-ins as ours: Kafka Connect's JSON of a ConfigDef, and of a validation."""

from collections.abc import Iterable, Mapping
from typing import Any

from fencepost.config import Setting, SettingValue, Type
from fencepost.config.setting import REQUIRED, Importance, Width


def setting_of(definition: Mapping[str, Any]) -> Setting:
    """Return one key of `GET /connector-plugins/NAME/config`. Values are checked by Java, not by the setting."""
    return Setting(
        definition["name"],
        REQUIRED if definition["required"] else definition.get("default_value"),
        doc=definition.get("documentation") or "",
        importance=Importance(definition["importance"]),
        declared_type=Type(definition["type"]),
        group=definition.get("group"),
        width=Width(definition.get("width") or "NONE"),
        display_name=definition.get("display_name"),
        dependents=tuple(definition.get("dependents") or ()),
        order=definition.get("order", -1),
    )


def settings_of(definitions: Iterable[Mapping[str, Any]]) -> dict[str, Setting]:
    """Return the settings by key."""
    return {each["name"]: setting_of(each) for each in definitions}


def values_of(report: Mapping[str, Any]) -> list[SettingValue]:
    """Return the results of a validation, in the form of REST. An undeclared key is shown if it is wrong."""
    found = []
    for each in report["configs"]:
        definition, value = each.get("definition"), each.get("value") or {}  # a validator may leave out declared keys
        if definition is None and not value.get("errors"):
            continue
        found.append(
            SettingValue(
                Setting(value["name"], None, declared_type=Type.STRING)
                if definition is None
                else setting_of(definition),
                value.get("value"),
                tuple(value.get("errors") or ()),
                tuple(value.get("recommended_values") or ()),
                value.get("visible", True),
            )
        )
    return found
