"""The options of a host's JVM."""

import pytest

from fencepost.java.start import jvm_options


def test_few_new_objects_are_kept_in_a_heap_of_the_usual_size() -> None:
    assert {"-Xmx128m", "-Xmn12m"} <= set(jvm_options(["-Dx=y"]))


@pytest.mark.parametrize("given", ["-Xmx512m", "-Xmn64m", "-XX:MaxRAMPercentage=50", "-XX:NewRatio=3"])
def test_a_heap_that_the_user_sizes_is_divided_by_java_or_by_the_user(given: str) -> None:
    options = jvm_options([given])
    assert "-Xmn12m" not in options
    assert options[-1] == given
