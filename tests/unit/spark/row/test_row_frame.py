"""What is called a fault of `transforms.sql`."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from pyspark.errors import AnalysisException

from fencepost.config import ConfigError
from fencepost.spark.row.frame import with_sql


def session(error: Exception) -> SimpleNamespace:
    return SimpleNamespace(sql=Mock(side_effect=error), catalog=Mock())


def test_query_that_spark_cannot_parse_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"transforms\.sql cannot be used: no such column"):
        with_sql(session(AnalysisException("no such column")), Mock(), "SELECT x FROM split")


def test_lost_spark_session_is_not_a_config_error() -> None:
    with pytest.raises(ConnectionRefusedError):
        with_sql(session(ConnectionRefusedError("Py4J")), Mock(), "SELECT x FROM split")
