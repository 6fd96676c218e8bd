"""The pods that Spark asks Kubernetes for, with the settings of the page. They are not started."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from secret_values import SECRET

from fencepost.spark.session.session import SparkRuntime
from fencepost.testing import eventually
from support.quick import spark_properties
from support.resource_manager import kubernetes_api, settings_of_the_page

_WITHIN_S = 200.0


@pytest.fixture
def page(tmp_path: Path) -> dict[str, str]:
    """The settings of the page, with a file of this machine for Spark's secret."""
    file = tmp_path / "secret"
    file.write_text("of-spark-4713")
    return settings_of_the_page("k8s:") | {"spark.authenticate.secret.file": str(file)}


@pytest.fixture
def api(
    no_shared_runtime: None, page: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of the namespace, with what the Spark of a worker has asked for."""
    monkeypatch.setenv("PYSPARK_PYTHON", page["spark.pyspark.python"])  # the runtime does that, for all later ones
    with kubernetes_api(tmp_path / "api") as url:
        own = {"spark.master": f"k8s://{url}", "spark.scheduler.minRegisteredResourcesRatio": "0"}
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        own |= {"spark.kubernetes.executor.enableApiWatcher": "false"}  # it expects a state, which pods never get here
        started = SparkRuntime({**spark_properties(), **page, **own}, secrets={"TEST_SECRET": SECRET})
        started.start()
        yield f"{url}/api/v1/namespaces/{page['spark.kubernetes.namespace']}"
        started.stop()


def test_pods_of_executors_have_the_settings_of_the_page_and_no_secret(api: str, page: dict[str, str]) -> None:
    def pods() -> list[dict[str, Any]]:
        found = httpx.get(f"{api}/pods").json()["items"]
        return found if len(found) == int(page["spark.executor.instances"]) else []

    for pod in eventually(pods, within_s=_WITHIN_S):
        (container,) = pod["spec"]["containers"]
        assert container["image"] == page["spark.kubernetes.container.image"]
        assert container["resources"]["requests"]["cpu"] == page["spark.kubernetes.executor.request.cores"]
        assert container["lifecycle"]["preStop"]["exec"]["command"] == ["/opt/decom.sh"]
        variables = {each["name"]: each.get("value", "") for each in container["env"]}
        assert variables["SPARK_EXECUTOR_CORES"] == page["spark.executor.cores"]
        assert variables["LC_ALL"] == "C.UTF-8"
        assert "_SPARK_AUTH_SECRET" not in variables, "Spark's own secret is in plain text"
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert Path(settings_of_the_page("k8s:")["spark.authenticate.secret.file"]).parent in map(Path, mounts)
    kept = "".join(httpx.get(f"{api}/{kind}").text for kind in ("pods", "configmaps"))
    assert SECRET not in kept
    assert "of-spark-4713" not in kept
