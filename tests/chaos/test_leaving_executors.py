"""Executors of a Spark cluster are ended with notice: tasks are handed over, and nothing is fenced or written twice."""

import contextlib
import re

import pytest

from support.chaos.campaign import TRANSACTIONS, Campaign
from support.chaos.evidence import Evidence
from support.chaos.fault import Kind, plan
from support.chaos.kills import Kills
from support.chaos.load import LineLoad
from support.long_form import IS_LONG
from support.worker import Worker

SETTINGS = {
    **TRANSACTIONS,
    "channel.unprotected": "accepted",
    "spark.master": "local-cluster[2,4,512]",
    "spark.executor.memory": "512m",
}
_BY_FORCE = re.compile(r"has been fenced|is not admitted|ExecutorLostFailure|starts again|is abandoned|was ended by")
"""What a worker's log has of a task that could not hand over."""


@pytest.mark.chaos
@pytest.mark.timeout(3_600 if IS_LONG else 1_200)
def test_tasks_are_handed_over_without_a_fence_when_their_executors_get_sigterm(kafka, tmp_path, seed, capfd):
    group, bootstrap = f"leaving-{seed}", kafka.bootstrap_servers
    with capfd.disabled(), contextlib.ExitStack() as stack:
        loads = [LineLoad("lines", tmp_path, f"{group}-lines", transaction_boundary="poll")]
        worker = stack.enter_context(Worker(bootstrap, tmp_path, SETTINGS, group=group))
        campaign = stack.enter_context(Campaign(worker, loads, bootstrap, 100, Evidence("leaving-executors", seed)))
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        Kills(campaign).run(plan(seed, {Kind.END_EXECUTOR: 60 if IS_LONG else 3}))
        log = worker.log_text()
        assert log.count("its executor is about to be taken away") >= (60 if IS_LONG else 3)
        assert _BY_FORCE.findall(log) == []
        campaign.prove()
