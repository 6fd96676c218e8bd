"""The Helm chart, rendered by Helm: what Kubernetes takes, and what a worker takes."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from fencepost.config.file import parse_properties
from fencepost.config.worker import WorkerConfig
from fencepost.embedded.home import default_cache, locked
from support.certificate import server_certificate
from support.http_answers import Answer, HttpAnswers
from support.long_form import IS_LONG

_VERSION = "v3.19.0"
_MODULE = "helm.sh/helm/v3/cmd/helm"


class NoHelmError(Exception):
    """There is no Helm, and none can be built here."""


def helm(*, may_build: bool) -> Path:
    """Return Helm's program. Raises NoHelmError if there is none, and none may or can be built."""
    found = shutil.which("helm")
    if found:
        return Path(found)
    built = default_cache() / f"helm-{_VERSION}" / "helm"
    if not built.exists():
        if not may_build:
            raise NoHelmError("helm is not on the PATH; `make chaos` builds one")
        _build(built)
    return built


def _build(program: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise NoHelmError("helm is not on the PATH, and there is no Go to build one")
    with locked(program.parent.with_suffix(".lock")):
        if not program.exists():
            environment = {**os.environ, "GOBIN": str(program.parent), "CGO_ENABLED": "0"}
            done = subprocess.run([go, "install", f"{_MODULE}@{_VERSION}"], env=environment, capture_output=True,
                                  text=True, check=False)  # fmt: skip
            if done.returncode:
                raise NoHelmError(f"helm could not be built: {done.stderr[-1000:]}")


ROOT = Path(__file__).parents[3]
DEPLOY, PAGE = ROOT / "deploy", ROOT / "docs/how-to/install.md"
CHART = DEPLOY / "helm/fencepost"
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


def test_a_given_setting_overrides_the_default_of_the_chart(program: Path) -> None:
    given = (r"worker.group\.id=other", r"worker.rest\.open\.paths=")
    text = rendered(program, *PROTECTED, *given)["ConfigMap pipelines"]["data"]["worker.properties"]
    settings = parse_properties(text)
    assert (settings["group.id"], settings["rest.open.paths"]) == ("other", "")


def test_numbers_of_a_values_file_are_rendered_unchanged(program: Path, tmp_path: Path) -> None:
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


def test_a_chart_without_a_users_secret_is_not_rendered(program: Path) -> None:
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


def test_required_client_certificates_are_refused_because_probes_have_none(program: Path) -> None:
    key = r"worker.listeners\.https\.ssl\.client\.auth"
    sets = [word for each in (*PROTECTED, *HTTPS, f"{key}=required") for word in ("--set", each)]
    done = template(program, *sets)
    assert done.returncode != 0
    assert "requested" in done.stderr
    assert "listeners.https.ssl.client.auth=requested" in str(rendered(program, *PROTECTED, *HTTPS, f"{key}=requested"))


def values(tmp_path: Path) -> str:
    """Return a file with the values that the page shows."""
    [shown] = re.findall(r"^  ```yaml\n(.*?)^  ```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "values.yaml"
    file.write_text(textwrap.dedent(shown))
    return str(file)


def test_plugins_are_fetched_before_the_worker_and_without_more_rights(program: Path, tmp_path: Path) -> None:
    done = template(program, "--set", *PROTECTED, "--values", values(tmp_path))
    assert done.returncode == 0, done.stderr
    [workers] = [each for each in yaml.safe_load_all(done.stdout) if each["kind"] == "StatefulSet"]
    for version in _KUBERNETES:
        kubernetes_validate.validate(workers, version, strict=True)
    pod = workers["spec"]["template"]["spec"]
    [worker], [fetching] = pod["containers"], pod["initContainers"]
    for key in ("image", "securityContext", "imagePullPolicy"):
        assert fetching[key] == worker[key]
    place = {"name": "plugins", "mountPath": "/opt/plugins"}
    assert place in fetching["volumeMounts"]
    assert {**place, "readOnly": True} in worker["volumeMounts"]
    assert "plugin.path=/opt/plugins" in done.stdout


def test_init_container_keeps_the_rights_in_its_security_context(program: Path) -> None:
    asked = ("initContainers[0].name=a", "initContainers[0].image=b:1",
             "initContainers[0].securityContext.readOnlyRootFilesystem=false")  # fmt: skip
    pod = rendered(program, *PROTECTED, *asked)["StatefulSet pipelines"]["spec"]["template"]["spec"]
    [given] = pod["initContainers"]
    assert (given["image"], given["securityContext"]["readOnlyRootFilesystem"]) == ("b:1", False)
    assert given["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_service_account_is_made_or_named_and_its_token_is_not_mounted(program: Path) -> None:
    role = r"serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::1:role/fencepost"
    objects = rendered(program, *PROTECTED, "serviceAccount.create=true", role, "podLabels.a=b")
    account = objects["ServiceAccount pipelines"]
    kubernetes_validate.validate(account, _KUBERNETES[0], strict=True)
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/fencepost"}
    template = objects["StatefulSet pipelines"]["spec"]["template"]
    assert template["metadata"]["labels"]["a"] == "b"
    assert (template["spec"]["serviceAccountName"], template["spec"]["automountServiceAccountToken"]) == (
        "pipelines", False,
    )  # fmt: skip
    named = rendered(program, *PROTECTED, "serviceAccount.name=other")
    assert named["StatefulSet pipelines"]["spec"]["template"]["spec"]["serviceAccountName"] == "other"
    assert "ServiceAccount other" not in named


def test_added_variables_do_not_replace_the_variables_of_the_chart(program: Path) -> None:
    objects = rendered(program, *PROTECTED, "extraEnv[0].name=CONNECT_REGION", "extraEnv[0].value=eu")
    assert {"name": "CONNECT_REGION", "value": "eu"} in worker_of(objects)["env"]
    text = objects["ConfigMap pipelines"]["data"]["worker.properties"]
    assert "config.providers.env.param.allowlist.pattern=CONNECT_.*" in text
    done = template(program, "--set", *PROTECTED, "--set", "extraEnv[0].name=POD_NAME,extraEnv[0].value=a")
    assert done.returncode != 0
    assert "POD_NAME is the chart's" in done.stderr


def test_workers_are_spread_over_nodes_and_zones(program: Path) -> None:
    objects = rendered(program, *PROTECTED)["StatefulSet pipelines"]["spec"]
    spread = objects["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert all(each["labelSelector"]["matchLabels"] == objects["selector"]["matchLabels"] for each in spread)


def test_ingress_leads_to_the_workers(program: Path) -> None:
    sets = ("ingress.enabled=true", "ingress.className=nginx", "ingress.hosts={connect.example,other.example}",
            "ingress.tls[0].secretName=tls", "ingress.tls[0].hosts={connect.example}")  # fmt: skip
    objects = rendered(program, *PROTECTED, *sets)
    ingress = objects["Ingress pipelines"]
    for version in _KUBERNETES:
        kubernetes_validate.validate(ingress, version, strict=True)
    assert [rule["host"] for rule in ingress["spec"]["rules"]] == ["connect.example", "other.example"]
    [path] = ingress["spec"]["rules"][0]["http"]["paths"]
    service = objects[f"Service {path['backend']['service']['name']}"]
    assert path["backend"]["service"]["port"]["name"] in [port["name"] for port in service["spec"]["ports"]]


MONITORING = ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "grafanaDashboard.enabled=true")


def test_prometheus_scrapes_each_worker_once_and_as_the_job_of_the_alerts(program: Path) -> None:
    objects = rendered(program, *PROTECTED, *MONITORING, "serviceMonitor.labels.release=prometheus")
    monitor = objects["ServiceMonitor pipelines"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [each for each in objects.values() if each["kind"] == "Service"]
    [scraped] = [each for each in services if wanted <= each["metadata"]["labels"].items()]
    assert scraped["metadata"]["name"] == "pipelines-workers"
    [endpoint] = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == ("rest", "/metrics", "http")
    [label] = endpoint["relabelings"]
    assert f'job="{label["replacement"]}"' in (DEPLOY / "prometheus/alerts.yml").read_text()


def test_prometheus_trusts_the_authority_of_the_workers(program: Path) -> None:
    [endpoint] = rendered(program, *PROTECTED, *HTTPS, *MONITORING)["ServiceMonitor pipelines"]["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    ca = {"secret": {"name": "worker-tls", "key": "ca.crt"}}
    assert endpoint["tlsConfig"] == {"serverName": "pipelines.data.svc", "ca": ca}


def test_alerts_and_dashboard_of_the_chart_equal_the_deployed_files(program: Path) -> None:
    objects = rendered(program, *PROTECTED, *MONITORING)
    assert objects["PrometheusRule pipelines"]["spec"] == yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())
    dashboard = objects["ConfigMap pipelines-dashboard"]
    kubernetes_validate.validate(dashboard, _KUBERNETES[0], strict=True)
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["fencepost.json"]) == json.loads(
        (DEPLOY / "grafana/fencepost.json").read_text()
    )


@pytest.mark.parametrize("wrong", ["replicas=3", "auth.userSecret=a", "port=none", "extraEnv[0].value=a"])
def test_values_that_the_chart_does_not_know_are_refused(program: Path, wrong: str) -> None:
    done = template(program, "--set", *PROTECTED, "--set", wrong)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


@pytest.mark.parametrize("sets", [("auth.unprotected=true", "replicaCount=1"), (*PROTECTED, *HTTPS)])
def test_notes_name_the_address_of_the_workers(program: Path, tmp_path: Path, sets: tuple[str, ...]) -> None:
    """Helm shows notes only where there is a cluster: here a template has them."""
    chart = tmp_path / "fencepost"
    shutil.copytree(CHART, chart)
    notes = (chart / "templates/NOTES.txt").read_text()
    text = f'{{{{ define "notes" }}}}{notes}{{{{ end }}}}notes: {{{{ include "notes" . | toJson }}}}'
    (chart / "templates/notes.yaml").write_text(text)
    words = (
        "template",
        "pipelines",
        str(chart),
        "--kube-version",
        _KUBERNETES[0],
        "--show-only",
        "templates/notes.yaml",
    )
    done = run(program, *words, *(word for each in sets for word in ("--set", each)))
    assert done.returncode == 0, done.stderr
    shown = yaml.safe_load(done.stdout)["notes"]
    assert f"{'https' if HTTPS[0] in sets else 'http'}://localhost:8083/ui" in shown
    assert "port-forward service/pipelines 8083" in shown
    assert ("auth.unprotected=true" in shown, "One worker:" in shown) == (HTTPS[0] not in sets,) * 2
