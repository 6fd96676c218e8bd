"""The index of Java plug-ins: what it finds in which layout, and what it says of what it cannot read."""

import os
from pathlib import Path

import pytest

from fencepost.builtin.java.index import JavaIndex, JavaKind
from support.jars import CONVERTER, SINK, SOURCE, TRANSFORM, class_bytes, write_jar

PRICES = "org.example.PriceSourceConnector"


def names(index: JavaIndex, kind: JavaKind = JavaKind.SOURCE) -> list[str]:
    return sorted(index.named(kind))


def test_a_directory_of_jars_is_one_location(tmp_path: Path) -> None:
    write_jar(tmp_path / "prices" / "prices.jar", {SOURCE: [PRICES], TRANSFORM: ["org.example.Round$Value"]})
    write_jar(tmp_path / "prices" / "lib" / "driver.jar")
    index = JavaIndex([str(tmp_path)])
    (found,) = index.named(JavaKind.SOURCE)[PRICES]
    assert found.location is not None
    assert found.location.path == str(tmp_path / "prices")
    assert found.location.archives == (
        str(tmp_path / "prices" / "lib" / "driver.jar"),
        str(tmp_path / "prices" / "prices.jar"),
    )
    assert names(index, JavaKind.TRANSFORM) == ["org.example.Round$Value"]
    assert index.failures == []


def test_archive_is_a_location_in_a_directory_and_as_a_plugin_path_entry(tmp_path: Path) -> None:
    inside = write_jar(tmp_path / "path" / "one.jar", {SOURCE: ["org.example.One"]})
    alone = write_jar(tmp_path / "two.ZIP", {SINK: ["org.example.Two"]})
    index = JavaIndex([str(tmp_path / "path"), str(alone)])
    assert [one.path for one in index.locations] == [str(inside), str(alone)]
    assert (names(index), names(index, JavaKind.SINK)) == (["org.example.One"], ["org.example.Two"])


def test_a_directory_of_classes_is_a_location_unless_it_has_jars(tmp_path: Path) -> None:
    classes = tmp_path / "classes" / "org" / "example"
    classes.mkdir(parents=True)
    (classes / "One.class").write_bytes(class_bytes("org.example.One", SOURCE))
    services = tmp_path / "classes" / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / SOURCE).write_text("org.example.One # the only one\n")
    assert names(JavaIndex([str(tmp_path)])) == ["org.example.One"]
    write_jar(tmp_path / "classes" / "other.jar", {SOURCE: ["org.example.Other"]})
    assert names(JavaIndex([str(tmp_path)])) == ["org.example.Other"]


def test_services_file_lines_without_a_class_name_are_skipped(tmp_path: Path) -> None:
    lines = ["# Licensed", "", f"  {PRICES}  # ours", "not a name", "org.example.A", "org..B"]
    write_jar(tmp_path / "one.jar", {SOURCE: lines})
    assert names(JavaIndex([str(tmp_path)])) == ["org.example.A", PRICES]


def test_a_class_is_found_in_each_location_that_has_it(tmp_path: Path) -> None:
    for version in ("one", "two"):
        write_jar(tmp_path / version / "prices.jar", {SOURCE: [PRICES]})
        write_jar(tmp_path / version / "copy.jar", {SOURCE: [PRICES]})
    found = JavaIndex([str(tmp_path)]).named(JavaKind.SOURCE)[PRICES]
    assert [one.location.path for one in found if one.location] == [str(tmp_path / "one"), str(tmp_path / "two")]


def test_a_bad_jar_is_reported_and_the_others_of_its_location_are_used(tmp_path: Path) -> None:
    write_jar(tmp_path / "prices" / "prices.jar", {SOURCE: [PRICES]})
    (tmp_path / "prices" / "cut.jar").write_bytes((tmp_path / "prices" / "prices.jar").read_bytes()[:-30])
    (tmp_path / "prices" / "empty.jar").touch()
    index = JavaIndex([str(tmp_path)])
    assert names(index) == [PRICES]
    cut, empty = index.failures
    assert cut.startswith(f"plugin.path: {tmp_path / 'prices' / 'cut.jar'} is not a jar that can be read: ")
    assert "empty.jar is not a jar that can be read" in empty


def test_an_archive_that_is_not_there_is_reported(tmp_path: Path) -> None:
    assert JavaIndex([str(tmp_path / "gone.jar")]).failures == [f"plugin.path: {tmp_path / 'gone.jar'} is not a file"]


def test_python_plugins_and_other_directories_are_no_java_locations(tmp_path: Path) -> None:
    package = tmp_path / "prices"
    package.mkdir()
    (package / "__init__.py").write_text("")
    write_jar(package / "vendored.jar", {SOURCE: [PRICES]})
    (tmp_path / "prices.py").write_text("")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.txt").write_text("")
    index = JavaIndex([str(tmp_path), str(tmp_path / "missing")])
    assert (index.locations, index.failures) == ((), [])


def test_a_link_to_a_directory_above_is_followed_once(tmp_path: Path) -> None:
    write_jar(tmp_path / "prices" / "prices.jar", {SOURCE: [PRICES]})
    os.symlink(tmp_path / "prices", tmp_path / "prices" / "again")
    assert names(JavaIndex([str(tmp_path)])) == [PRICES]


def test_class_missing_from_services_files_is_found_by_its_parents(tmp_path: Path) -> None:
    classes = {
        "org.example.Plain": class_bytes("org.example.Plain", "org.example.Base"),
        "org.example.Base": class_bytes("org.example.Base", SINK),
        "org.example.Both": class_bytes("org.example.Both", interfaces=[CONVERTER, TRANSFORM]),
        "org.example.Other": class_bytes("org.example.Other"),
    }
    write_jar(tmp_path / "one" / "one.jar", {SINK: ["org.example.Base"]}, classes)
    index = JavaIndex([str(tmp_path)])
    (plain,) = index.outside("org.example.Plain")
    assert plain.kind is JavaKind.SINK
    assert plain.java_class.location is not None
    assert plain.java_class.location.path == str(tmp_path / "one")
    assert [one.kind for one in index.outside("org.example.Both")] == [JavaKind.CONVERTER, JavaKind.TRANSFORM]
    assert index.outside("org.example.Base") == []  # a services file names it
    assert index.outside("org.example.Other") == []


@pytest.mark.parametrize("name", ["../secret", "Base", "org.example.", "", "a b"])
def test_name_that_is_no_full_class_name_is_not_searched_for(tmp_path: Path, name: str) -> None:
    write_jar(tmp_path / "one" / "one.jar", classes={"Base2": class_bytes("Base2", SINK)})
    assert JavaIndex([str(tmp_path)]).outside(name) == []


def test_class_search_ends_at_a_cycle_of_parents(tmp_path: Path) -> None:
    classes = {"a.A": class_bytes("a.A", "a.B"), "a.B": class_bytes("a.B", "a.A")}
    write_jar(tmp_path / "one" / "one.jar", classes=classes)
    assert JavaIndex([str(tmp_path)]).outside("a.A") == []
