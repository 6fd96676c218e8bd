"""Both doors run unchanged on a Spark standalone cluster, whose executors die under load."""

import pytest

from integration.spark.standalone import standalone
from support.chaos.campaign import Campaign
from support.chaos.evidence import Evidence
from support.chaos.fault import Kind, plan
from support.chaos.kills import Kills
from support.chaos.load import LineLoad, SpoolLoad
from support.worker import Worker

SETTINGS = {"spark.executor.memory": "512m", "spark.executor.cores": "4"}


@pytest.mark.chaos
@pytest.mark.drawn(3)
@pytest.mark.timeout(1_800)
def test_both_doors_are_exact_on_a_cluster_whose_executors_die(kafka, tmp_path, seed, capfd):
    group = f"cluster-{seed}"
    loads = [
        LineLoad("lines", tmp_path, f"{group}-lines", transaction_boundary="poll"),
        SpoolLoad("spool", tmp_path, f"{group}-spool", rows=200),
    ]
    with (
        capfd.disabled(),
        standalone(tmp_path) as cluster,
        Worker(kafka.bootstrap_servers, tmp_path, {"spark.master": cluster.url, **SETTINGS}, group=group) as worker,
        Campaign(worker, loads, kafka.bootstrap_servers, 100, Evidence("standalone", seed)) as campaign,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        Kills(campaign).run(plan(seed, {Kind.KILL_EXECUTOR: 1}))
        campaign.prove()
