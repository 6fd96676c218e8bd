"""What can be known of the chart without Helm: its values fit their schema, and it has what it names."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from fencepost.config.file import parse_properties

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy/helm/fencepost"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def test_defaults_of_the_chart_fit_the_schema_and_are_all_in_it() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)
    assert set(SCHEMA["properties"]) - set(VALUES) == {"global"}  # which Helm itself adds for charts above


def test_chart_templates_use_only_existing_values() -> None:
    texts = "\n".join(path.read_text() for path in (CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values\.(\w+)", texts))
    assert used == set(VALUES)


def test_chart_links_the_prometheus_and_grafana_files() -> None:
    for path, name in (("prometheus/alerts.yml", "alerts.yml"), ("grafana/fencepost.json", "dashboard.json")):
        assert (ROOT / "deploy" / path).samefile(CHART / "files" / name)


@pytest.mark.parametrize("page", ["operate", "secured-cluster"])
def test_sample_worker_files_limit_the_client_overrides_of_connectors(page: str) -> None:
    """As in the chart, a user who may edit connectors cannot name other brokers."""
    chart = re.search(r'"connector\.client\.config\.override\.allowlist" "([^"]*)"', _helpers())
    assert chart is not None
    [sample] = [
        parse_properties(text)
        for text in re.findall(r"```properties\n(.*?)```", (ROOT / f"docs/how-to/{page}.md").read_text(), re.DOTALL)
        if text.startswith("bootstrap.servers=")
    ]
    assert sample["connector.client.config.override.policy"] == "Allowlist"
    allowed = set(sample["connector.client.config.override.allowlist"].split(","))
    assert allowed <= set(chart[1].split(","))
    assert page != "operate" or allowed == set(chart[1].split(","))


def _helpers() -> str:
    return (CHART / "templates/_helpers.tpl").read_text()
