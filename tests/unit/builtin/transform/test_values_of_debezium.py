"""Debezium's transforms produce what the originals produce from the same events (`tests/oracle/debezium.py`)."""

import gzip
import json
import re
from typing import Any

import pytest

from fencepost.api import ConfigError
from fencepost.plugin import PluginKind, registry
from support.kafka_values import FIXTURES, answer, by_subject, meaning

CASES: list[dict[str, Any]] = json.loads(gzip.decompress((FIXTURES / "debezium-3.6.1" / "values.json.gz").read_bytes()))
RECORDS = [case for case in CASES if "value" in case]
AS_DEBEZIUMS = by_subject(case for case in RECORDS if "differs" not in case)
DIFFERENT = by_subject(case for case in RECORDS if "differs" in case)
SETTINGS = [case for case in CASES if "settings" in case]


@pytest.mark.parametrize("subject", AS_DEBEZIUMS)
def test_change_events_are_transformed_like_debezium_does(subject: str) -> None:
    cases = AS_DEBEZIUMS[subject]
    assert [case for case in cases if meaning(answer(case), case) != meaning(case["answer"], case)] == []


@pytest.mark.parametrize("subject", DIFFERENT)
def test_documented_differences_from_debezium_are_real(subject: str) -> None:
    cases = DIFFERENT[subject]
    assert [case for case in cases if meaning(answer(case), case) == meaning(case["answer"], case)] == []
    assert [case for case in cases if ("error" in answer(case)) != ("refused" in case["differs"])] == []


@pytest.mark.parametrize("case", SETTINGS, ids=[case["settings"] for case in SETTINGS])
def test_all_settings_of_the_debezium_transform_are_known_or_refused(case: dict[str, Any]) -> None:
    transform = registry().find(PluginKind.TRANSFORM, case["settings"])
    for key in set(case["answer"]["settings"]) - set(transform.settings()):
        with pytest.raises(ConfigError, match=re.escape(key)):
            transform({key: "x"})
