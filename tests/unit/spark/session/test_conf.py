"""What goes to Spark, and what may stand on a command line."""

import re

import pytest

from fencepost.spark.session.conf import is_on_this_machine, is_secret, spark_properties, text_environment


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.hadoop.fs.s3a.secret.key", "x"),
        ("spark.ssl.keyPassword", "x"),
        ("spark.hadoop.fs.azure.account.key.shop.blob.core.windows.net", "x"),
        ("spark.hadoop.url", "jdbc:x?password=y"),
        ("spark.executorEnv.ANYTHING", "x"),
    ],
)
def test_secrets_stay_off_the_command_line(key: str, value: str) -> None:
    assert is_secret(key, value)


def test_key_of_an_account_is_redacted_by_spark_as_well() -> None:
    key = "spark.hadoop.fs.azure.account.key.shop.blob.core.windows.net"
    assert re.search(spark_properties({key: "x"})["spark.redaction.regex"], key)


def test_jars_with_secret_looking_names_are_not_secrets() -> None:
    assert not is_secret("spark.jars", "/opt/spark-token-provider-kafka-0-10_2.13-4.0.0.jar")


def test_ordinary_properties_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "")  # else it is set for executors: what that holds stays off in any case
    assert not [k for k, v in spark_properties({}).items() if is_secret(k, v)]


def test_malloc_keeps_its_memory_unless_the_user_has_tuned_it(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "spark.executorEnv.GLIBC_TUNABLES"
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert "trim_threshold" in spark_properties({})[key]
    assert spark_properties({key: "glibc.malloc.arena_max=2"})[key] == "glibc.malloc.arena_max=2"
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")  # what processes on this machine inherit
    assert key not in spark_properties({})


def test_the_heap_of_a_driver_grows_with_its_use() -> None:
    assert "-Xms32m" in spark_properties({})["spark.driver.extraJavaOptions"].split()


def test_driver_optimizes_late_unless_configured() -> None:
    own = "-XX:Tier4InvocationThreshold=5000"
    options = spark_properties({"spark.driver.extraJavaOptions": own})["spark.driver.extraJavaOptions"].split()
    assert [each for each in options if each.startswith("-XX:Tier4InvocationThreshold")] == [own]


def test_the_users_properties_win() -> None:
    given = {
        "spark.master": "spark://there:7077",
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": "-XX:+UseG1GC -Xms1g",
    }
    properties = spark_properties(given)
    assert properties["spark.master"] == "spark://there:7077"
    assert properties["spark.driver.memory"] == "4g"
    options = properties["spark.driver.extraJavaOptions"]
    assert "UseSerialGC" not in options
    assert options.count("-Xms") == 1
    assert "spark.driver.host" not in properties


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local[4]", True), ("spark://127.0.0.1:7077", True), ("spark://elsewhere:7077", False), ("yarn", False)],
)
def test_own_python_is_used_only_on_a_local_master(master: str, expected: bool) -> None:
    assert is_on_this_machine(master) is expected


@pytest.mark.parametrize(
    ("given", "codeset", "made"),
    [
        ({"LC_ALL": "C", "PATH": "/bin"}, "ANSI_X3.4-1968", {"LANG": "C", "LC_CTYPE": "C.UTF-8", "PATH": "/bin"}),
        (
            {"LC_ALL": "de_DE.ISO-8859-1", "LANG": "x"},
            "ISO-8859-1",
            {"LANG": "de_DE.ISO-8859-1", "LC_CTYPE": "C.UTF-8"},
        ),
        ({"LANG": "en_US.UTF-8"}, "ANSI_X3.4-1968", {"LANG": "en_US.UTF-8", "LC_CTYPE": "C.UTF-8"}),
        ({}, "ANSI_X3.4-1968", {"LC_CTYPE": "C.UTF-8"}),
        ({"LC_ALL": "en_US.UTF-8"}, "UTF-8", {"LC_ALL": "en_US.UTF-8"}),
    ],
)
def test_child_processes_use_utf8_in_any_locale(given: dict[str, str], codeset: str, made: dict[str, str]) -> None:
    assert text_environment(given, codeset) == {**made, "PYTHONUTF8": "1"}


def test_java_uses_utf8_in_driver_and_executors_unless_configured() -> None:
    local, remote = spark_properties({}), spark_properties({"spark.master": "spark://somewhere:7077"})
    assert "-Dfile.encoding=UTF-8" in local["spark.driver.extraJavaOptions"]
    assert remote["spark.executor.extraJavaOptions"] == "-Dfile.encoding=UTF-8"
    assert remote["spark.executorEnv.LC_ALL"] == "C.UTF-8"
    own = {"spark.driver.extraJavaOptions": "-Dfile.encoding=COMPAT"}
    assert "UTF-8" not in spark_properties(own)["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("master", "signal"),
    [("spark://there:7077", "TERM"), ("yarn", "TERM"), ("k8s://https://there", None), ("local[4]", None)],
)
def test_executors_of_clusters_say_that_they_are_to_end(master: str, signal: str | None) -> None:
    properties = spark_properties({"spark.master": master})
    assert ("spark.decommission.enabled" in properties) == (not master.startswith("local"))
    assert properties.get("spark.executor.decommission.signal") == signal
    assert ("spark.executor.failuresValidityInterval" in properties) == (not master.startswith("local"))
