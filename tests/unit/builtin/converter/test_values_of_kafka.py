"""Converters and transforms produce what Kafka's own produce from the same values (`tests/oracle/values.py`)."""

import json
from typing import Any

import pytest

from support.kafka_values import FIXTURES, answer, meaning

CASES: list[dict[str, Any]] = json.loads((FIXTURES / "connect-4.3.1" / "values.json").read_text())
AS_KAFKAS = [case for case in CASES if "differs" not in case]
DIFFERENT = [case for case in CASES if "differs" in case]


@pytest.mark.parametrize("case", AS_KAFKAS, ids=range(len(AS_KAFKAS)))
def test_converted_value_equals_the_result_of_kafkas_classes(case: dict[str, Any]) -> None:
    assert meaning(answer(case), case) == meaning(case["answer"], case), case


@pytest.mark.parametrize("case", DIFFERENT, ids=range(len(DIFFERENT)))
def test_result_differs_from_kafkas_classes_only_as_documented(case: dict[str, Any]) -> None:
    ours, theirs, differs = answer(case), case["answer"], case["differs"]
    assert meaning(ours, case) != meaning(theirs, case), "it does not differ"
    if "refused" in differs:
        assert "error" in ours
    else:
        assert "error" not in ours
