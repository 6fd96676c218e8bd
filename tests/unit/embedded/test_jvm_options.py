"""Options of users in the environment, and those of ours that give way to them."""

from pathlib import Path

import pytest

from fencepost.embedded.java import environment_options, giving_way


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, []),
        ({"JAVA_TOOL_OPTIONS": "-XX:+UseG1GC  -Xmx1g\n-Da=b"}, ["-XX:+UseG1GC", "-Xmx1g", "-Da=b"]),
        ({"JDK_JAVA_OPTIONS": "\"-Da=b c\" -Dd='e f'g"}, ["-Da=b c", "-Dd=e fg"]),
        (
            {"_JAVA_OPTIONS": "-Xms3m", "JAVA_TOOL_OPTIONS": "-Xms1m", "JDK_JAVA_OPTIONS": "-Xms2m"},
            ["-Xms1m", "-Xms2m", "-Xms3m"],
        ),
        ({"JAVA_OPTS": "-Xmx1g"}, []),
    ],
)
def test_jvm_options_are_read_from_the_variables_that_java_reads(environment: dict[str, str], found: list[str]) -> None:
    assert environment_options(environment) == found


@pytest.mark.parametrize(
    ("variable", "option"), [("JDK_JAVA_OPTIONS", "@"), ("JAVA_TOOL_OPTIONS", "-XX:VMOptionsFile=")]
)
def test_jvm_options_in_an_argument_file_of_the_environment_are_found(
    tmp_path: Path, variable: str, option: str
) -> None:
    file = tmp_path / "options"
    file.write_text("# heap\n-Xmx1g\n-XX:+UseZGC\n")
    assert environment_options({variable: f"{option}{file}"})[1:] == ["-Xmx1g", "-XX:+UseZGC"]
    assert environment_options({variable: f"{option}{tmp_path / 'missing'}"})[1:] == []


@pytest.mark.parametrize(
    ("ours", "users", "stays"),
    [
        ("-XX:+UseSerialGC", "-XX:+UseG1GC", False),
        ("-XX:+UseSerialGC", "-XX:+AggressiveHeap", False),
        ("-XX:+UseSerialGC", "-XX:+UseStringDeduplication", True),
        ("-XX:+UseSerialGC", "-XX:-UseSerialGC", False),
        ("-XX:-UsePerfData", "-XX:+UsePerfData", False),
        ("-Xms64m", "-Xmx32m", False),
        ("-Xms64m", "-Xmx64m", True),
        ("-Xms64m", "-XX:MaxHeapSize=65535k", False),
        ("-Xms64m", "-XX:InitialRAMPercentage=1", False),
        ("-Xms64m", "-XX:MinHeapSize=8m", False),
        ("-Xmx256m", "-Xmx64m", False),
        ("-Xmx256m", "-Xms512m", False),
        ("-Xmx256m", "-Xms128m", True),
        ("-Xmx256m", "-XX:MinHeapSize=1g", False),
        ("-Xmx256m", "-XX:MaxRAMPercentage=75", False),
        ("-Dfile.encoding=UTF-8", "-Dfile.encoding=ISO-8859-1", False),
        ("-Dfile.encoding=UTF-8", "-Dfile.encoding.other=a", True),
        ("-XX:ErrorFile=/ours", "-XX:ErrorFile=/users", False),
        ("-Xlog:disable", "-Xlog:gc", True),
    ],
)
def test_own_jvm_option_is_dropped_if_the_user_sets_a_conflicting_one(ours: str, users: str, stays: bool) -> None:
    assert giving_way([ours], [users]) == ([ours] if stays else [])
