"""What a direct write says about its options before it asks Kafka, and how Spark finds its data source."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from fencepost.config import ConfigError
from fencepost.spark.datasource import DirectWriter, FencepostDataSource
from fencepost.spark.direct_write.options import DirectWriteOptions

_BROKER = {"kafka.bootstrap.servers": "localhost:1"}
_NAMED = {"topic": "t", "write.id": "w"} | _BROKER


def test_a_missing_topic_is_named_before_the_number_of_partitions() -> None:
    with pytest.raises(ConfigError, match="option topic is missing"):
        DirectWriter({"write.id": "w"} | _BROKER, ["value"], "struct<value:string>")


def test_error_for_missing_partitions_names_the_import_that_counts_them() -> None:
    with pytest.raises(ConfigError, match=r"option write.partitions is missing.*import fencepost.spark.datasource"):
        DirectWriteOptions.parse(_NAMED)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topics": "t"}, "option topics is unknown; use one of topic, write.id"),
        ({"write.partitions": "0"}, "Invalid value 0 for configuration write.partitions"),
        ({"rows.per.commit": "many"}, "Invalid value many for configuration rows.per.commit"),
        ({"producer.client": "java"}, "option producer.client is java: it must be one of auto, batch, librdkafka"),
    ],
)
def test_a_wrong_option_is_refused_with_its_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DirectWriteOptions.parse(_NAMED | {"write.partitions": "1"} | given)


def test_empty_write_id_is_kept() -> None:
    options = DirectWriteOptions.parse(_NAMED | {"write.id": "", "write.partitions": "2"})
    assert (options.write_id, options.partitions) == ("", 2)


def test_spark_finds_the_data_source_by_the_prefix_of_its_package() -> None:
    """As `pyspark.sql.worker.lookup_data_sources` does in every session."""
    found = [import_module(info.name) for info in iter_modules() if info.name.startswith("pyspark_")]
    assert [module.DefaultSource for module in found] == [FencepostDataSource]
    assert FencepostDataSource.name() == "fencepost"
