"""What the annotation of a setting means to an author: a Python value of that type, or a refusal at import."""

from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import pytest

from fencepost.api import Config, ConfigError, Secret, Type, at_least, non_empty, setting
from fencepost.config.setting import as_text, rendered


class Mode(Enum):
    FULL = "full"
    DELTA = "delta"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Example(Config):
    number: int = setting("number", default=1 << 40, check=at_least(0))
    small: int = setting("small", default=1, type=Type.INT)
    path: Path | None = setting("path", default=None)
    mode: Mode = setting("mode", default=Mode.FULL, check=non_empty())
    levels: list[Level] = setting("levels", default=[Level.LOW])
    ports: list[int] = setting("ports", default=[])
    paths: list[Path] = setting("paths", default=[Path("/a")])


def test_settings_are_converted_to_their_annotated_types() -> None:
    given = {"number": "9000000000", "path": "/tmp/x", "mode": "DELTA", "levels": "2, 1", "ports": "80,443"}
    example = Example(given)
    assert example.number == 9_000_000_000
    assert example.path == Path("/tmp/x")
    assert example.mode is Mode.DELTA
    assert example.levels == [Level.HIGH, Level.LOW]
    assert example.ports == [80, 443]


def test_defaults_and_typed_values_are_kept_unchanged() -> None:
    example = Example()
    assert (example.path, example.mode, example.levels, example.paths) == (None, Mode.FULL, [Level.LOW], [Path("/a")])
    typed = Example({"path": Path("/t"), "mode": Mode.DELTA, "ports": [1, 2]})
    assert (typed.path, typed.mode, typed.ports) == (Path("/t"), Mode.DELTA, [1, 2])


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("number", "9" * 19 + "9", "Not a number of type LONG"),
        ("small", "3000000000", "Not a number of type INT"),
        ("mode", "half", "String must be one of: full, delta"),
        ("levels", "1,7", "String must be one of: 1, 2"),
        ("ports", "80,http", "Not a number of type LONG"),
        ("path", "", "must not be empty"),
    ],
)
def test_value_that_does_not_fit_the_annotation_is_refused_with_its_key(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"configuration {key}: {reason}"):
        Example({key: value})


def test_validate_reports_kafkas_types_and_enum_values() -> None:
    answers = {one.setting.key: one for one in Example.validate_values({})}
    assert {key: one.setting.kind for key, one in answers.items()} == {
        "number": Type.LONG,
        "small": Type.INT,
        "path": Type.STRING,
        "mode": Type.STRING,
        "levels": Type.LIST,
        "ports": Type.LIST,
        "paths": Type.LIST,
    }
    assert (answers["mode"].value, answers["levels"].value, answers["paths"].value) == ("full", "1", "/a")
    assert answers["mode"].setting.recommended == ("full", "delta")
    assert rendered(Mode.DELTA, Type.STRING) == "delta"


@pytest.mark.parametrize(
    "annotation", [dict, dict[str, str], Any, bytes, int | str, tuple[str, ...], list[dict[str, int]]]
)
def test_unsupported_annotation_is_refused_when_the_class_is_defined(annotation: object) -> None:
    body = {"__annotations__": {"what": annotation}, "what": setting("what", default=None)}
    with pytest.raises(TypeError, match=r"Wrong\.what: .* is not a type of settings; use str, int"):
        type("Wrong", (Config,), body)


def test_setting_with_an_explicit_kafka_type_may_have_any_annotation() -> None:
    body = {"__annotations__": {"what": Any}, "what": setting("what", default="x", type=Type.STRING)}
    assert type("Right", (Config,), body)().what == "x"  # type: ignore[attr-defined]


def test_values_in_task_configs_survive_a_round_trip_through_text() -> None:
    given = {"number": 5, "path": Path("/t"), "mode": Mode.DELTA, "levels": [Level.HIGH], "ports": [80, 443]}
    stored = {key: as_text(key, value) for key, value in given.items()}
    assert stored == {"number": "5", "path": "/t", "mode": "delta", "levels": "2", "ports": "80,443"}
    read = Example(stored)
    assert {key: getattr(read, key) for key in given} == given
    assert (as_text("a", True), as_text("a", None), as_text("a", Secret("s"))) == ("true", None, "s")


@pytest.mark.parametrize("value", [{"a": 1}, b"x", object(), [{"a": 1}]])
def test_value_without_a_text_form_is_refused_with_its_key(value: object) -> None:
    with pytest.raises(ConfigError, match=r"configuration what: a \w+ has no text"):
        as_text("what", value)
