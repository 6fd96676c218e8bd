"""The PromQL expressions of the dashboard and of the alert rules in `deploy`, and the metrics that they name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
_GRAFANAS = {"$__rate_interval": "5m", "$job": "kafka-connect"}


def alerts() -> dict[str, str]:
    """Return the expression of each rule."""
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def panels() -> dict[str, list[str]]:
    """Return the expressions of each panel of the dashboard, with Grafana's variables replaced."""
    found = json.loads((DEPLOY / "grafana" / "fencepost.json").read_text())["panels"]
    return {panel["title"]: [_filled(each["expr"]) for each in panel.get("targets", [])] for panel in found}


def metrics_of(expression: str) -> set[str]:
    """Return the names of the metrics in an expression. Raises ValueError if it is none."""
    return set(_names(promql_parser.parse(expression)))


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name
    for part in ("lhs", "rhs", "expr", "vector_selector", "param"):
        if isinstance(child := getattr(node, part, None), promql_parser.Expr):
            yield from _names(child)
    for child in getattr(node, "args", ()):
        yield from _names(child)


def _filled(expression: str) -> str:
    for variable, value in _GRAFANAS.items():
        expression = expression.replace(variable, value)
    return expression
