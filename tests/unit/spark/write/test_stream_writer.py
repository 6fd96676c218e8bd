"""What `writeStream.format("fencepost")` says about its options before it asks Kafka."""

from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from fencepost.api import FatalError
from fencepost.config import ConfigError
from fencepost.spark.datasource import FencepostDataSource

_GIVEN = {"kafka.bootstrap.servers": "localhost:1", "topic": "t", "checkpointLocation": "/tmp/none"}
_ROWS = StructType([StructField("value", StringType())])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topics": "t"}, "option topics is unknown; use one of topic"),
        ({"write.id": "w"}, r"option write.id is for df.write"),
        ({"value.converter": "JsonConverter"}, r"option value.converter=JsonConverter: use one of AvroConverter"),
        ({"checkpointLocation": None}, "option checkpointLocation is missing: set it on the writer"),
        ({"topic": None}, "option topic is missing"),
        ({"kafka.bootstrap.servers": None}, "option kafka.bootstrap.servers is missing"),
        ({"kafka.sasl.mechanism": "NONSENSE"}, "option kafka.sasl.mechanism"),
    ],
)
def test_wrong_option_of_a_stream_is_refused_by_name(given: dict[str, str | None], message: str) -> None:
    options = {key: value for key, value in (_GIVEN | given).items() if value is not None}
    with pytest.raises(ConfigError, match=message):
        FencepostDataSource(_lower(options)).streamWriter(_ROWS, overwrite=False)


def test_name_of_a_query_is_not_taken_for_an_option_of_the_sink() -> None:
    """Spark puts it among them."""
    assert FencepostDataSource(_lower(_GIVEN | {"queryName": "prices"})).streamWriter(_ROWS, overwrite=False)


def test_complete_mode_is_refused_and_names_append() -> None:
    with pytest.raises(ConfigError, match=r'outputMode\("complete"\).*outputMode\("append"\)'):
        FencepostDataSource(_lower(_GIVEN)).streamWriter(_ROWS, overwrite=True)


@pytest.mark.parametrize("name", ["key", "timestamp", "partition"])
def test_column_of_a_wrong_type_is_refused_by_name(name: str) -> None:
    rows = StructType([StructField("value", StringType()), StructField(name, LongType())])
    with pytest.raises(ConfigError, match=f"column {name} is bigint: it must be"):
        FencepostDataSource(_lower(_GIVEN)).streamWriter(rows, overwrite=False)


def test_value_of_any_type_is_taken_if_a_registry_has_its_schema() -> None:
    options = _GIVEN | {"value.converter": "AvroConverter", "value.converter.schema.registry.url": "http://r:1"}
    rows = StructType([StructField("value", StructType([StructField("n", LongType())]))])
    assert FencepostDataSource(_lower(options)).streamWriter(rows, overwrite=False)
    with pytest.raises(ConfigError, match=r"option value.converter writes the column value: select one"):
        FencepostDataSource(_lower(options)).streamWriter(StructType([StructField("n", LongType())]), overwrite=False)


@pytest.mark.parametrize("is_apart", [True, False])
def test_folder_that_the_sink_has_not_made_is_left_alone(tmp_path: Path, is_apart: bool) -> None:
    kept = tmp_path / "fencepost" / "kept"
    kept.parent.mkdir()
    kept.touch()
    own = {"staging.location": str(tmp_path), "checkpointLocation": "/none"}
    options = _GIVEN | (own if is_apart else {"checkpointLocation": str(tmp_path)})
    FencepostDataSource(_lower(options)).streamWriter(_ROWS, overwrite=False).abort([], 0)
    assert kept.exists()


def test_task_fails_if_it_has_state_that_the_driver_does_not_see(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    options = _GIVEN | {"checkpointLocation": str(tmp_path)}
    writer = FencepostDataSource(_lower(options)).streamWriter(_ROWS, overwrite=False)
    with pytest.raises(ConfigError, match=r"option checkpointLocation: .* set a location that all of them share"):
        writer.write(iter([]))


def test_task_without_a_message_is_not_taken_for_one_without_rows() -> None:
    writer = FencepostDataSource(_lower(_GIVEN)).streamWriter(_ROWS, overwrite=False)
    with pytest.raises(FatalError, match="0 of 1 tasks have said what they staged"):
        writer.commit([None], 0)


def _lower(options: dict[str, str]) -> dict[str, str]:
    """Return options as Spark hands them over."""
    return {key.lower(): value for key, value in options.items()}
