"""The Helm chart, rendered by Helm: what Kubernetes takes, and what a worker takes."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from fencepost.config.properties import parse_properties
from fencepost.config.worker import WorkerConfig
from support.certificate import server_certificate
from support.helm import NoHelmError, helm
from support.http_answers import Answer, HttpAnswers
from support.long_form import IS_LONG

CHART = Path(__file__).parents[3] / "deploy/helm/fencepost"
PROTECTED, HTTPS = ("auth.usersSecret=users",), ("https.secret=worker-tls",)
_KUBERNETES = ("1.27", "1.33")


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return helm(may_build=IS_LONG)
    except NoHelmError as error:
        pytest.skip(str(error))


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def template(program: Path, *words: str, version: str = _KUBERNETES[0]) -> subprocess.CompletedProcess[str]:
    """Render the chart for a version of Kubernetes: a Helm that `go install` has built takes 1.20 for granted."""
    return run(program, "template", "pipelines", str(CHART), "--namespace", "data", "--kube-version", version, *words)


def rendered(program: Path, *sets: str, version: str = _KUBERNETES[0]) -> dict[str, dict[str, Any]]:
    """Return the objects by their kinds and names."""
    done = template(program, *(word for each in sets for word in ("--set", each)), version=version)
    assert done.returncode == 0, done.stderr
    documents = [each for each in yaml.safe_load_all(done.stdout) if each]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in documents}


def worker_of(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    [container] = objects["StatefulSet pipelines"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_helm_finds_nothing_wrong_with_the_chart(program: Path) -> None:
    done = run(program, "lint", "--strict", str(CHART), "--set", *PROTECTED)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", _KUBERNETES)
@pytest.mark.parametrize(
    "sets",
    [
        PROTECTED,
        ("auth.unprotected=true", "envFromSecret=shop", "secretFiles={kafka,registry}", "nodeSelector.a=b"),
        (*PROTECTED, *HTTPS),
    ],
    ids=["least", "most", "https"],
)
def test_kubernetes_knows_every_field(program: Path, sets: tuple[str, ...], version: str) -> None:
    objects = rendered(program, *sets, version=version)
    assert len(objects) == 5
    for each in objects.values():
        kubernetes_validate.validate(each, version, strict=True)


def test_a_worker_takes_the_settings(program: Path) -> None:
    text = rendered(program, *PROTECTED)["ConfigMap pipelines"]["data"]["worker.properties"]
    config = WorkerConfig(parse_properties(text.replace("${env:POD_NAME}", "pipelines-0")))
    assert config.originals["config.providers.env.param.allowlist.pattern"] == "CONNECT_.*"
    assert config.warnings() == []
    assert (config.group_id, config.config_storage_topic) == ("pipelines", "pipelines-configs")


def test_a_setting_that_is_given_precedes_that_of_the_chart(program: Path) -> None:
    given = (r"worker.group\.id=other", r"worker.rest\.open\.paths=")
    text = rendered(program, *PROTECTED, *given)["ConfigMap pipelines"]["data"]["worker.properties"]
    settings = parse_properties(text)
    assert (settings["group.id"], settings["rest.open.paths"]) == ("other", "")


def test_numbers_of_a_values_file_are_written_as_they_are(program: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("worker: {task.shutdown.graceful.timeout.ms: 3600000, ui.enabled: false, a.share: 0.25}")
    done = template(program, "--set", *PROTECTED, "--values", str(values))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split()
    for line in ("task.shutdown.graceful.timeout.ms=3600000", "ui.enabled=false", "a.share=0.25"):
        assert line in lines


def test_a_secret_may_have_any_name_that_kubernetes_takes(program: Path) -> None:
    objects = rendered(program, *PROTECTED, r"secretFiles={shop.kafka,registry}")
    kubernetes_validate.validate(objects["StatefulSet pipelines"], _KUBERNETES[0], strict=True)
    mounts = {each["name"]: each["mountPath"] for each in worker_of(objects)["volumeMounts"]}
    secrets = [each for each in objects["StatefulSet pipelines"]["spec"]["template"]["spec"]["volumes"]
               if each["name"].startswith("secret-")]  # fmt: skip
    assert all(re.fullmatch(r"[a-z0-9-]+", each["name"]) for each in secrets)
    paths = {each["secret"]["secretName"]: mounts[each["name"]] for each in secrets}
    assert paths == {name: f"/etc/fencepost/secrets/{name}" for name in ("shop.kafka", "registry")}


def test_a_chart_whose_workers_would_not_start_is_not_rendered(program: Path) -> None:
    done = template(program)
    assert done.returncode != 0
    assert "auth.usersSecret" in done.stderr


def test_a_worker_has_no_rights_and_writes_to_tmp_only(program: Path) -> None:
    objects = rendered(program, *PROTECTED)
    container = worker_of(objects)
    context = container["securityContext"]
    assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
    assert objects["StatefulSet pipelines"]["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
    assert [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")] == ["/tmp"]


def test_a_worker_that_answers_is_not_restarted(program: Path) -> None:
    """The readiness probe asks for a worker that is well; the others only for an answer."""
    container = worker_of(rendered(program, *PROTECTED))
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": "rest", "scheme": "HTTP"}
    for probe in ("startupProbe", "livenessProbe"):
        python, option, code = container[probe]["exec"]["command"]
        assert (python, option) == ("python", "-c")
        compile(code, probe, "exec")
        assert "HTTPError" in code


def answer_of(probe: dict[str, Any], at: str, port: int) -> int:
    """Run the program of a probe, in which the chart's port is replaced, and return its exit code."""
    _, option, code = probe["exec"]["command"]
    assert at in code
    return subprocess.run(
        [sys.executable, option, code.replace(at, at.replace("8083", str(port)))], check=False
    ).returncode


def test_https_is_spoken_by_listeners_and_probes(program: Path, tmp_path: Path) -> None:
    """The certificate is for other names than that by which the probe calls: it asks the worker beside it."""
    objects = rendered(program, *PROTECTED, *HTTPS)
    settings = parse_properties(objects["ConfigMap pipelines"]["data"]["worker.properties"])
    assert settings["listeners"] == "https://0.0.0.0:8083"
    assert settings["listeners.https.ssl.truststore.location"] == "/etc/fencepost/https/ca.crt"
    container = worker_of(objects)
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in objects["StatefulSet pipelines"]["spec"]["template"]["spec"]["volumes"]}
    name = mounts[settings["listeners.https.ssl.keystore.location"]]
    assert volumes[name]["secret"]["secretName"] == "worker-tls"
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    _, tls = server_certificate(tmp_path, "pipelines.data.svc")
    with HttpAnswers(lambda asked: Answer({}, 503), tls) as worker:
        for probe in ("startupProbe", "livenessProbe"):
            assert answer_of(container[probe], "https://127.0.0.1:8083", worker.port) == 0
    assert answer_of(container["livenessProbe"], "https://127.0.0.1:8083", worker.port) != 0


def test_a_worker_trusts_the_system_s_authorities_if_the_secret_has_none(program: Path) -> None:
    text = rendered(program, *PROTECTED, *HTTPS, "https.authority=")["ConfigMap pipelines"]["data"]["worker.properties"]
    assert "truststore" not in text


def test_client_certificates_that_no_probe_has_are_not_required(program: Path) -> None:
    key = r"worker.listeners\.https\.ssl\.client\.auth"
    sets = [word for each in (*PROTECTED, *HTTPS, f"{key}=required") for word in ("--set", each)]
    done = template(program, *sets)
    assert done.returncode != 0
    assert "requested" in done.stderr
    assert "listeners.https.ssl.client.auth=requested" in str(rendered(program, *PROTECTED, *HTTPS, f"{key}=requested"))
