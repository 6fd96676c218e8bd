"""What writing a frame says about its options before it asks Kafka, and how Spark finds its data source."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from fencepost.config import ConfigError
from fencepost.spark.datasource import FencepostDataSource
from fencepost.spark.write.frame import KafkaFrameWriter

_BROKER = {"kafka.bootstrap.servers": "localhost:1"}
_NAMED = {"topic": "t", "write.id": "w"} | _BROKER


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"write.id": "w"} | _BROKER, "option topic is missing"),
        ({"topic": "t"}, "option kafka.bootstrap.servers is missing"),
        (_NAMED | {"topics": "t"}, "option topics is unknown; use one of topic, write.id"),
        (_NAMED | {"rows.per.commit": "5"}, "option rows.per.commit is unknown"),
        (_NAMED | {"producer.client": "batch"}, "option producer.client is unknown"),
    ],
)
def test_wrong_option_is_refused_with_its_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KafkaFrameWriter(given, ["value"])


def test_spark_finds_the_data_source_by_the_prefix_of_its_package() -> None:
    """As `pyspark.sql.worker.lookup_data_sources` does in every session."""
    found = [import_module(info.name) for info in iter_modules() if info.name.startswith("pyspark_")]
    assert [module.DefaultSource for module in found] == [FencepostDataSource]
    assert FencepostDataSource.name() == "fencepost"
