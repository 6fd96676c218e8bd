"""Tasks in slots, DataFrame splits and a Java source run on a Spark standalone cluster, whose executors die."""

import contextlib

import pytest

from support.chaos.campaign import TRANSACTIONS, Campaign
from support.chaos.evidence import Evidence
from support.chaos.fault import Kind, plan
from support.chaos.java_targets import JavaCounted
from support.chaos.kills import Kills
from support.chaos.load import LineLoad, SpoolLoad
from support.chaos.sink_gates import SinkGates
from support.java_plugins import compile_plugins
from support.quick import QUICK
from support.standalone import standalone
from support.worker import Worker

SETTINGS = {
    **TRANSACTIONS,
    "channel.unprotected": "accepted",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "4",
    "java.host.options": QUICK,
}


@pytest.mark.chaos
@pytest.mark.timeout(1_800)
def test_dataframe_and_task_connectors_are_exact_when_executors_die(kafka, tmp_path, seed, capfd):
    group, bootstrap = f"cluster-{seed}", kafka.bootstrap_servers
    compile_plugins(tmp_path / "plugins" / "gated")
    with capfd.disabled(), standalone(tmp_path) as cluster, SinkGates() as gates, contextlib.ExitStack() as stack:
        loads = [
            LineLoad("lines", tmp_path, f"{group}-lines", transaction_boundary="poll"),
            SpoolLoad("spool", tmp_path, f"{group}-spool", rows=200),
            JavaCounted(gates.port, "java", tmp_path, f"{group}-java", transaction_boundary="poll"),
        ]
        settings = {"spark.master": cluster.url, "plugin.path": str(tmp_path / "plugins"), **SETTINGS}
        worker = stack.enter_context(Worker(bootstrap, tmp_path, settings, group=group))
        campaign = stack.enter_context(Campaign(worker, loads, bootstrap, 100, Evidence("standalone", seed)))
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        Kills(campaign).run(plan(seed, {Kind.KILL_EXECUTOR: 1}))
        campaign.prove()
