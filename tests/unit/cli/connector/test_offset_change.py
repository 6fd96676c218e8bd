"""Changes of offsets as users write them."""

import json
from pathlib import Path

import pytest

from fencepost.cli.connector.offsets import OffsetChange, parse_changes
from fencepost.config import ConfigError


def place(partition: int) -> dict[str, object]:
    return {"kafka_topic": "a:b", "kafka_partition": partition}


PRESENT = [OffsetChange(place(0), {"kafka_offset": 3}), OffsetChange(place(1), {"kafka_offset": 4})]


def test_sink_offset_changes_are_parsed() -> None:
    assert parse_changes(["a:b:2=7", "a:b:0=none"], None, PRESENT) == [
        OffsetChange(place(2), {"kafka_offset": 7}),
        OffsetChange(place(0), None),
    ]
    assert parse_changes(["a:b:*=0"], None, PRESENT) == [OffsetChange(place(n), {"kafka_offset": 0}) for n in (0, 1)]


def test_source_offset_changes_are_parsed_from_arguments_and_files(tmp_path: Path) -> None:
    one = {"partition": {"filename": "/f"}, "offset": {"position": 0}}
    wanted = [OffsetChange(one["partition"], one["offset"])]
    assert parse_changes([json.dumps(one)], None, []) == wanted
    (tmp_path / "offsets.json").write_text(json.dumps({"offsets": [one]}))
    assert parse_changes([], str(tmp_path / "offsets.json"), []) == wanted


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("orders=7", "expected TOPIC:PARTITION=OFFSET"), ("orders:x=7", "expected TOPIC:PARTITION=OFFSET"),
        ("orders:*=7", "no partition of orders"), ('{"partition": {}}', "expected"), ("{", "no JSON"),
        ('{"partition": {}, "offset": 7}', "expected"), ('{"offsets": []}', "expected"),
    ],
)  # fmt: skip
def test_malformed_offset_change_is_named_with_the_expected_form(text: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_changes([text], None, PRESENT)
    assert text in str(caught.value)
    assert named in str(caught.value)


def test_offset_changes_refuse_a_repeated_partition_and_an_empty_list() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        parse_changes(["a:b:0=1", "a:b:0=2"], None, PRESENT)
    with pytest.raises(ConfigError, match="Say which offsets"):
        parse_changes([], None, PRESENT)
