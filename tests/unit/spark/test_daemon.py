"""What Spark's Python workers search for modules."""

from pathlib import Path

from fencepost.spark.daemon import without_archives


def installation(directory: Path, *packages: str) -> tuple[str, list[str]]:
    """Make what `pip install pyspark` does. Returns the directory, and the archives that Spark puts in front."""
    for name in packages:
        (directory / name).mkdir(parents=True)
        (directory / name / "__init__.py").touch()
    library = directory / "pyspark" / "python" / "lib"
    return str(directory), [str(library / "pyspark.zip"), str(library / "py4j-0.10-src.zip")]


def test_archives_of_an_installation_that_is_searched_are_left_out(tmp_path: Path) -> None:
    site, archives = installation(tmp_path, "pyspark", "py4j")
    assert without_archives([*archives, "/own", site]) == ["/own", site]


def test_archives_stay_when_their_installation_is_not_searched(tmp_path: Path) -> None:
    _, archives = installation(tmp_path / "a", "pyspark", "py4j")
    other, _ = installation(tmp_path / "b", "pyspark", "py4j")
    assert without_archives([*archives, other]) == [*archives, other]


def test_archives_stay_when_the_installation_is_incomplete(tmp_path: Path) -> None:
    site, archives = installation(tmp_path, "pyspark")
    assert without_archives([*archives, site]) == [*archives, site]


def test_archives_of_somebody_else_stay(tmp_path: Path) -> None:
    site, _ = installation(tmp_path, "pyspark", "py4j")
    assert without_archives(["/jobs/mine.zip", site]) == ["/jobs/mine.zip", site]
