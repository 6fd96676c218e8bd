"""Public configs of Debezium with its plug-in, as `plugin install` fetches it: taken, or told what to rename."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from bench.postgres import debezium

from fencepost.config.worker import WorkerConfig
from fencepost.plugin import registry, use_registry
from fencepost.worker.validation.validation import validate_connector
from support.command_line import Ran, fencepost
from support.settings import SETTINGS

FIXTURE = Path(__file__).parents[2] / "fixtures" / "public-configs.json"
CONFIGS = {one["name"]: one["config"] for one in json.loads(FIXTURE.read_text())}
TAKEN, OLD = ("debezium postgres", "debezium postgres outbox"), "debezium postgres 1"
NO_DATABASE = {"database.hostname": "127.0.0.1", "database.port": "1"}


class Validated(NamedTuple):
    """What the command says of all of them without a worker, and what a worker says of the old one."""

    ran: Ran
    errors: dict[str, list[str]]


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Validated]:
    directory, before = tmp_path_factory.mktemp("debezium"), registry()
    debezium(directory / "plugins")
    chosen = [{"name": name, "config": {**CONFIGS[name], "name": name}} for name in (*TAKEN, OLD)]
    (directory / "configs.json").write_text(json.dumps(chosen))
    ran = fencepost("validate", directory / "configs.json", "--offline", "--plugin-path", directory / "plugins")
    worker = WorkerConfig({**SETTINGS, "bootstrap.servers": "b:9"})
    report = validate_connector(CONFIGS[OLD] | NO_DATABASE, plugins=registry(), worker=worker)
    yield Validated(ran, {one.value.name: [*one.value.errors] for one in report.configs if one.value.errors})
    use_registry(before)


def test_config_of_the_documentation_is_valid(validated: Validated) -> None:
    assert (validated.ran.code, validated.ran.out.strip()) == (0, f"{len(TAKEN) + 1} valid")
    assert not [line for line in validated.ran.err.splitlines() if f": {OLD}: " not in line]


def test_config_of_debezium_1_is_refused_with_the_new_names_of_keys(validated: Validated) -> None:
    assert "database.server.name: nothing reads it since Debezium 2: rename it to topic.prefix" in validated.ran.err
    assert "table.whitelist: nothing reads it since Debezium 2: rename it to table.include.list" in validated.ran.err
    assert (
        "It was database.server.name before Debezium 2, which this config has" in validated.errors["topic.prefix"][-1]
    )
