"""The names of files and of their directories."""

from urllib.parse import quote

import pytest

from fencepost.api import ConfigError, OffsetRange
from fencepost.builtin.connector.files.columns import name_check, partition_columns
from fencepost.builtin.connector.files.moves import moves_for, shown_name
from fencepost.builtin.connector.files.sink import FilesSink


def test_files_sink_names_a_file_by_topic_partition_and_offset_range() -> None:
    range_ = OffsetRange("flights", 3, 40, 90)
    zeros = "0" * 18
    assert shown_name(range_, None, ".snappy.parquet", "parquet") == f"flights+3+{zeros}40-{zeros}89.snappy.parquet"
    assert shown_name(range_, 2, ".txt.gz", "json") == f"flights+3+{zeros}40-{zeros}89+00002.json.gz"


@pytest.mark.parametrize("topic", ["t", "_t", "t-00000000000000000040-00000000000000000089.json", "1", "a.b-3"])
def test_files_sink_finds_the_files_of_a_range_by_name(topic: str) -> None:
    ranges = [OffsetRange(topic, partition, start, start + 5) for partition in (0, 1) for start in (0, 5)]
    moves = {
        f"{n} {r}": f"a=1+1/b=x.y/{shown_name(n, r, '.snappy.parquet', 'parquet')}" for n in ranges for r in (None, 0)
    }
    for each in ranges:
        assert moves_for(moves, [each]) == {source: shown for source, shown in moves.items() if str(each) in source}
    assert moves_for(moves, ranges) == moves
    assert moves_for(moves, [OffsetRange("other", 0, 0, 5)]) == {}


@pytest.mark.parametrize("topic", ["_schemas", ".hidden"])
def test_file_of_a_topic_with_a_hidden_prefix_gets_a_visible_name(topic: str) -> None:
    assert shown_name(OffsetRange(topic, 0, 0, 1), None, ".json", "json").startswith(f"+{topic}+0+")


@pytest.mark.parametrize("topic", ["t" * 160, "t" * 161, "t" * 220, "_" * 249])
def test_file_name_of_a_long_topic_is_at_most_255_bytes(topic: str) -> None:
    most = 10**18
    range_ = OffsetRange(topic, 2**31 - 1, most, most + 5)
    name = shown_name(range_, 10**9, ".parquet.snappy.gz.zstd", "parquet")
    assert len(name.encode()) <= 255
    assert moves_for({"aside": f"a=1/{name}"}, [range_]) == {"aside": f"a=1/{name}"}
    assert (topic in name) == (len(topic) == 160)


@pytest.mark.parametrize("topic", ["t" * 161, "t" * 190, "_" * 161])
def test_files_of_an_older_epoch_with_unshortened_names_are_published(topic: str) -> None:
    """Epochs decided by earlier versions list file names with the whole topic."""
    range_, whole = OffsetRange(topic, 1, 0, 5), f"+{topic}" if topic[0] == "_" else topic
    name = f"{whole}+1+{0:020d}-{4:020d}.snappy.parquet"
    assert len(name.encode()) <= 255
    assert moves_for({"aside": f"a=1/{name}"}, [range_]) == {"aside": f"a=1/{name}"}
    assert moves_for({"aside": f"a=1/{name}"}, [OffsetRange(topic, 1, 0, 4)]) == {}


@pytest.mark.parametrize("name", ["x" * 201, "x" * 246, "\u540d" * 27])
def test_staging_directory_keeps_the_name_of_earlier_versions(name: str) -> None:
    """Epochs that an earlier version decided are found there."""
    assert quote(name, safe="") in FilesSink({"name": name, "path": "/x"}).staging


def test_shortened_file_names_of_topics_with_a_common_prefix_differ() -> None:
    names = {shown_name(OffsetRange("t" * 230 + end, 0, 0, 5), None, ".json", "json") for end in "ab"}
    assert len(names) == 2


@pytest.mark.parametrize("name", ["c", "\u540d" * 34, "\u540d" * 33 + "a", "x" * 400, "/" * 100])
def test_every_connector_name_has_its_own_valid_staging_directory(name: str) -> None:
    aside = [FilesSink({"name": each, "path": "/x"}).staging.rpartition("/")[2] for each in (name, name + "!", name)]
    assert max(len(each.encode()) for each in aside) <= 255
    assert aside[0] == aside[2] != aside[1]


TYPES = {"country": "string", "at": "timestamp"}


def test_partition_by_makes_directories_from_columns_and_time_units() -> None:
    found = partition_columns(TYPES, ["country", "at:day"])
    assert list(found) == ["country", "at_day"]
    assert "date_format(`at`, 'yyyy-MM-dd')" in found["at_day"]


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (["at:week"], "it may end with :year"),
        (["nothing"], "there are country, at"),
        (["country:day"], "the column is string; make it a timestamp"),
        (["at:day", "at:day"], "there is a column at_day already"),
    ],
)
def test_partition_by_refuses_an_entry_that_makes_no_directory(entries: list[str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        partition_columns(TYPES, entries)


def test_partition_by_refuses_a_directory_with_the_name_of_a_column() -> None:
    with pytest.raises(ConfigError, match="there is a column at_day already"):
        partition_columns({**TYPES, "at_day": "string"}, ["at:day"])


def test_only_columns_with_values_in_directory_names_are_checked() -> None:
    assert name_check(["at:day"], [OffsetRange("t", 0, 0, 5)]) is None
    check = name_check(["it's"], [OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 3, 9)])
    assert check is not None
    assert "array('t-0, offsets 0 to 4', 't-1, offsets 3 to 8')" in check
    assert "'it\\u0027s'" in check


def test_partition_by_refuses_an_unknown_time_unit() -> None:
    with pytest.raises(ConfigError, match=r"partition\.by"):
        FilesSink({"name": "c", "path": "/x", "partition.by": "at:week"})


@pytest.mark.parametrize("key", ["writer.path", "writer.Paths", "writer.__partition_columns"])
def test_files_sink_refuses_an_option_that_names_other_files(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        FilesSink({"name": "c", "path": "/x", key: "/etc"})
