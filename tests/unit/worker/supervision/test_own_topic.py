"""A connector's own topics are looked for with values that were looked up once."""

from typing import Any

from fencepost.config.worker import WorkerConfig
from fencepost.worker.plan import ledger_topic
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.task.specs import ensure_own_topic
from support.settings import SETTINGS


def test_looked_up_value_that_looks_like_a_reference_is_not_looked_up_again() -> None:
    config: dict[str, Any] = {"name": "files", "connection.password": "${ab:cd}"}
    settings = WorkerSettings(WorkerConfig(SETTINGS), "http://w:1", "me")
    ensure_own_topic(settings, config, ledger_topic(settings.plan(config)))  # no such provider is configured
