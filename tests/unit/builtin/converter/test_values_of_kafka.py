"""Converters and transforms produce what Kafka's own produce from the same values (`tests/oracle/values.py`)."""

import json
from typing import Any

import pytest

from support.kafka_values import FIXTURES, answer, by_subject, meaning

CASES: list[dict[str, Any]] = json.loads((FIXTURES / "connect-4.3.1" / "values.json").read_text())
AS_KAFKAS = by_subject(case for case in CASES if "differs" not in case)
DIFFERENT = by_subject(case for case in CASES if "differs" in case)


@pytest.mark.parametrize("subject", AS_KAFKAS)
def test_converted_values_equal_the_results_of_kafkas_classes(subject: str) -> None:
    cases = AS_KAFKAS[subject]
    assert [case for case in cases if meaning(answer(case), case) != meaning(case["answer"], case)] == []


@pytest.mark.parametrize("subject", DIFFERENT)
def test_results_differ_from_kafkas_classes_only_as_documented(subject: str) -> None:
    cases = DIFFERENT[subject]
    assert [case for case in cases if meaning(answer(case), case) == meaning(case["answer"], case)] == []
    assert [case for case in cases if ("error" in answer(case)) != ("refused" in case["differs"])] == []
