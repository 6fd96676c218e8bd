"""A Spark cluster: its RPC runs code in the worker, so whoever reaches it must know a secret."""

import pytest

from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from support.settings import SETTINGS

ELSEWHERE = {**SETTINGS, "spark.master": "spark://there:7077"}
SECRET = {"spark.authenticate": "true", "spark.authenticate.secret": "s"}


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "spark.authenticate"),
        ({"spark.authenticate": "false"}, "spark.authenticate"),
        ({"spark.network.crypto.enabled": "true"}, "spark.authenticate"),
        (SECRET, "spark.network.crypto.enabled"),
        ({**SECRET, "spark.master": "yarn"}, "spark.network.crypto.enabled"),
        ({**SECRET, "spark.master": "k8s://https://there"}, "spark.network.crypto.enabled"),
    ],
)
def test_spark_cluster_is_refused_when_its_connections_have_no_secret(given: dict[str, str], missing: str) -> None:
    with pytest.raises(ConfigError, match=f"set {missing}=true.*channel.unprotected=accepted"):
        WorkerConfig({**ELSEWHERE, **given})


@pytest.mark.parametrize(
    "given",
    [
        {**SECRET, "spark.network.crypto.enabled": "true"},
        {**SECRET, "spark.ssl.rpc.enabled": "TRUE"},
        {"channel.unprotected": "accepted"},
        {"spark.master": "local"},
        {"spark.master": "local[4]"},
        {"spark.master": "local-cluster[1,1,512]"},
    ],
)
def test_spark_cluster_is_accepted_with_a_secret_or_an_explicit_setting(given: dict[str, str]) -> None:
    assert WorkerConfig({**ELSEWHERE, **given}).spark["spark.master"]
    assert WorkerConfig(SETTINGS)
