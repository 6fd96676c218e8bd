"""Tasks in slots, DataFrame splits and a query over topics in containers of YARN, which are lost, or taken away."""

import contextlib
import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from fencepost.task.channel.client import SECRET_VARIABLE
from fencepost.testing import eventually
from fencepost.testing.verdict import Observation
from support.chaos.campaign import TRANSACTIONS, Campaign
from support.chaos.evidence import Evidence
from support.chaos.fault import Kind, plan
from support.chaos.kills import Kills
from support.chaos.load import LineLoad, Load, SpoolLoad
from support.long_form import IS_LONG
from support.resource_manager import (
    files_with,
    make_environment,
    settings_of_the_page,
    settings_of_this_machine,
    yarn_cluster,
)
from support.worker import Worker

FAULTS = 5 if IS_LONG else 1
WITHIN_S = 240


class QueriedRows(Load):
    """The rows that a spool directory has brought to its topic, which a TopicSql writes to another one."""

    partitions = SpoolLoad.partitions

    def __init__(self, name: str, rows: SpoolLoad, topic: str) -> None:
        super().__init__(name, rows.directory, topic)
        self._rows = rows

    def config(self) -> dict[str, str]:
        return {
            "connector.class": "fencepost.connector.topic_sql.TopicSql",
            "topics": self._rows.topic,
            "output.topic": self.topic,
            "output.key.field": "id",
            "transforms.sql": "SELECT value.* FROM records",
            "value.schema": self._rows.config()["input.schema"],
            "value.converter": self._rows.config()["value.converter"],
            "value.converter.schemas.enable": "false",
            "epoch.interval.ms": "300",
            "tasks.max": "1",
        }

    def feed(self, count: int) -> None:
        """The other load makes them."""

    @property
    def front(self) -> dict[Hashable, int]:
        (front,) = self._rows.front.values()
        return {self.name: front}

    def place(self, observation: Observation) -> tuple[Hashable, int]:
        return self.name, self._rows.place(observation)[1]

    def expected(self) -> Mapping[Hashable, Sequence[Hashable]]:
        return self._rows.expected()

    def sighting(self, observation: Observation) -> tuple[Hashable, Hashable]:
        return self._rows.sighting(observation)

    def is_at_home(self, observation: Observation) -> bool:
        row = json.loads(observation.value or b"")
        return (observation.topic, observation.key) == (self.topic, row["id"].encode())


@pytest.mark.chaos
@pytest.mark.timeout(3_600 if IS_LONG else 1_800)
def test_connectors_are_exact_when_yarn_loses_containers_or_takes_them_away(
    kafka, tmp_path: Path, seed, capfd, monkeypatch
):
    group, yarn = f"yarn-{seed}", tmp_path / "yarn"
    make_environment(tmp_path)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn / "conf"))
    settings = TRANSACTIONS | settings_of_the_page("yarn") | settings_of_this_machine(yarn / "staging")
    with capfd.disabled(), yarn_cluster(yarn), contextlib.ExitStack() as stack:
        with contextlib.chdir(tmp_path):  # where the page says that a worker is started
            worker = stack.enter_context(Worker(kafka.bootstrap_servers, tmp_path, settings, group=group))
        rows = SpoolLoad("spool", tmp_path, f"{group}-spool", rows=200)
        lines = LineLoad("lines", tmp_path, f"{group}-lines", transaction_boundary="poll")
        loads = [lines, rows, QueriedRows("sql", rows, f"{group}-sql")]
        campaign = stack.enter_context(Campaign(worker, loads, kafka.bootstrap_servers, 100, Evidence("yarn", seed)))
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        Kills(campaign).run(plan(seed, {Kind.KILL_EXECUTOR: FAULTS, Kind.END_EXECUTOR: FAULTS}))
        slot = psutil.Process(next(iter(eventually(worker.slots, within_s=WITHIN_S).values())))
        assert yarn in Path(slot.cwd()).parents
        secret = slot.environ()[SECRET_VARIABLE]
        assert len(secret) > 16
        assert files_with(yarn, secret) == [], "E11: containers and their logs have the channel's secret"
        campaign.prove()
