"""The dashboard and the alert rules: what Prometheus parses, about metrics that there are."""

import re
from pathlib import Path

import pytest

from support.expressions import alerts, metrics_of, panels

REFERENCE = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
KNOWN = set(re.findall(r"^\| `([a-z0-9_]+)` \|", REFERENCE, re.MULTILINE)) | {"up"}


def test_metric_names_are_found_in_any_part_of_an_expression() -> None:
    expression = "sum by (a) (rate(x_total{b='c'}[5m])) / (y offset 1m) and on (a) topk(3, z) > -quantile(0.5, w)"
    assert metrics_of(expression) == {"x_total", "y", "z", "w"}
    with pytest.raises(ValueError):
        metrics_of("sum(x")


@pytest.mark.parametrize("name", alerts())
def test_alert_uses_only_existing_metrics(name: str) -> None:
    found = metrics_of(alerts()[name])
    assert found
    assert found <= KNOWN


@pytest.mark.parametrize("title", panels())
def test_dashboard_panel_uses_only_existing_metrics(title: str) -> None:
    found = [metrics_of(expression) for expression in panels()[title]]
    assert all(found)
    assert set().union(*found) <= KNOWN
