"""When the JVM is started straight, and what stands on its command line."""

import sys
from pathlib import Path

import pytest

from fencepost.spark.session.command import gateway_command, is_plain, needs_home
from fencepost.spark.session.conf import spark_properties


def test_local_master_starts_java_without_sparks_scripts(tmp_path: Path) -> None:
    command = gateway_command(spark_properties({"spark.driver.memory": "3g"}), {"JAVA_HOME": "/j"}, tmp_path)
    assert command[0] == "/j/bin/java"
    assert "-Xmx3g" in command
    assert command[-1] == "org.apache.spark.api.python.PythonGatewayServer"
    assert not [part for part in command if part.startswith("spark.")]


@pytest.mark.parametrize(
    "given",
    [
        {"spark.master": "spark://there:7077"},
        {"spark.jars.packages": "org.example:driver:1"},
        {"spark.files": "/etc/hosts"},
        {"spark.driver.extraClassPath": "/jars/x.jar"},
    ],
)
def test_properties_handled_by_spark_submit_go_through_spark_submit(given: dict[str, str], tmp_path: Path) -> None:
    properties = spark_properties(given)
    assert not is_plain(properties, {}, tmp_path)
    assert gateway_command(properties, {}, tmp_path)[0] == str(tmp_path / "bin" / "spark-submit")


def test_custom_installation_or_environment_goes_through_spark_submit(tmp_path: Path) -> None:
    properties = spark_properties({})
    assert not is_plain(properties, {"HADOOP_CONF_DIR": "/etc/hadoop"}, tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    assert not is_plain(properties, {}, tmp_path)


def test_pyspark_archives_are_used_only_if_it_may_not_be_installed(tmp_path: Path) -> None:
    local = spark_properties({})
    assert not needs_home(local, {}, tmp_path, sys.executable)
    assert needs_home(local, {}, tmp_path, "/usr/bin/python3")
    assert needs_home(local, {}, tmp_path, None)
    assert needs_home(local, {"SPARK_HOME": "/opt/spark"}, tmp_path, sys.executable)
    assert needs_home(spark_properties({"spark.master": "spark://there:7077"}), {}, tmp_path, sys.executable)


@pytest.mark.parametrize("master", ["local[4]", "spark://there:7077"])
def test_gateway_command_contains_no_secret(master: str, tmp_path: Path) -> None:
    given = {"spark.master": master, "spark.hadoop.fs.s3a.secret.key": "hush", "spark.executorEnv.X": "hush"}
    assert "hush" not in " ".join(gateway_command(spark_properties(given), {}, tmp_path))
