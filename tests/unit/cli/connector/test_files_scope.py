"""What an audit of a files sink learns from its config."""

from pathlib import Path

import pytest

from fencepost.cli.connector.audit_scope import files_scope, keeps_all, offset_column
from fencepost.config import ConfigError
from fencepost.record import TopicPartition

JSON = "org.apache.kafka.connect.json.JsonConverter"
NO_OFFSETS: dict[str, object] = {"offsets": []}


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("", ""),
        ("SELECT value.*, offset AS kafka_offset FROM records WHERE value.id IS NOT NULL", "kafka_offset"),
        ("select offset,\n value from records", "offset"),
        ("SELECT value.n, offset\nFROM records", "offset"),
        ("SELECT value, offset AS\n `at` FROM records", "at"),
        ("SELECT value.offset FROM records", ""),
        ("SELECT offset + 1 AS offset FROM records", ""),
        ("SELECT cast(offset AS string) AS o FROM records", ""),
        ("SELECT n FROM (SELECT offset FROM records)", ""),
        ("SELECT value FROM records WHERE offset > 3", ""),
    ],
)
def test_audit_finds_the_offset_column_in_the_query(query: str, column: str) -> None:
    assert offset_column(query) == column


@pytest.mark.parametrize(
    ("query", "is_kept"),
    [
        ("", True),
        ("SELECT value.*, offset AS kafka_offset FROM records", True),
        ("SELECT value.* FROM records WHERE value.n > 1", False),
        ("SELECT DISTINCT value FROM records", False),
        ("SELECT count(*) FROM records", False),
        ("SELECT explode(value.items) FROM records", False),
        ("SELECT value FROM records LIMIT 3", False),
        ("SELECT a.value FROM records a, records b", False),
    ],
)
def test_only_a_plain_projection_counts_as_keeping_every_record(query: str, is_kept: bool) -> None:
    assert keeps_all(query) is is_kept


def test_files_audit_scope_has_committed_offsets_and_the_file_format(tmp_path: Path) -> None:
    offsets = {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 1}, "offset": {"kafka_offset": 7}}]}
    config = {"path": str(tmp_path), "value.converter": JSON, "format": "JSON", "writer.compression": "gzip"}
    scope = files_scope(config, offsets)
    assert (scope.path, scope.committed) == (tmp_path, {TopicPartition("t", 1): 7})
    assert (scope.form.format, scope.form.is_raw, scope.form.has_header) == ("json", True, False)
    assert (scope.has_all, scope.from_start) == (True, True)


def test_files_audit_scope_knows_settings_that_may_drop_records(tmp_path: Path) -> None:
    config = {"path": f"file://{tmp_path}", "errors.tolerance": "all", "value.schema": "n INT"}
    scope = files_scope({**config, "consumer.override.auto.offset.reset": "latest"}, NO_OFFSETS)
    assert (scope.path, scope.has_all, scope.from_start, scope.form.is_raw) == (tmp_path, False, False, False)


@pytest.mark.parametrize(
    ("own", "from_start"), [({}, False), ({"consumer.override.auto.offset.reset": "earliest"}, True)]
)
def test_audit_takes_offset_reset_from_the_worker_unless_the_sink_sets_it(
    tmp_path: Path, own: dict[str, str], from_start: bool
) -> None:
    worker = {"consumer.auto.offset.reset": "latest"}
    assert files_scope({"path": str(tmp_path), **own}, NO_OFFSETS, worker).from_start is from_start


@pytest.mark.parametrize("path", ["s3a://bucket/data", "/not/there"])
def test_audit_refuses_files_on_other_machines(path: str) -> None:
    with pytest.raises(ConfigError, match=path):
        files_scope({"path": path}, NO_OFFSETS)


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"format": "csv", "writer.header": "true", "writer.compression": "gzip", "writer.nullValue": "-"}, ""),
        ({"format": "csv", "writer.sep": ";"}, "writer.sep"),
        ({"format": "json", "writer.lineSep": "|"}, "writer.lineSep"),
        ({"format": "json", "writer.compression": "snappy"}, "writer.compression"),
        ({"writer.compression": "snappy"}, ""),
    ],
)
def test_audit_refuses_files_with_indistinguishable_rows(
    tmp_path: Path, settings: dict[str, str], refused: str
) -> None:
    config = {"path": str(tmp_path), **settings}
    if refused:
        with pytest.raises(ConfigError, match=refused):
            files_scope(config, NO_OFFSETS)
    else:
        assert files_scope(config, NO_OFFSETS).form.has_header is ("writer.header" in settings)
