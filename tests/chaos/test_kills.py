"""Processes die and freeze under load: nothing is lost, doubled or out of order, and nobody has to restart anything."""

import os

import pytest

from support.chaos.campaign import Campaign
from support.chaos.fault import Kind, plan
from support.chaos.load import PLUGIN_PATH, LineLoad, NumberedLoad, SpoolLoad
from support.worker import Worker

TIMES = 15 if os.environ.get("FENCEPOST_CHAOS") == "long" else 1
QUOTAS = {Kind.KILL_SLOT: 9 * TIMES, Kind.STOP_SLOT: 5 * TIMES, Kind.KILL_WORKER: 3 * TIMES, Kind.KILL_SPLIT: 3 * TIMES}
RECORDS_PER_S = 400  # for each of four loads
SETTINGS = {
    "plugin.path": PLUGIN_PATH,
    "slot.lease.ms": "2000",
    # Spark would kill what it has given up; here the zombie has to live until it wakes up.
    "spark.python.task.killTimeout": "120s",
}


@pytest.mark.chaos
@pytest.mark.timeout(900 * TIMES)
def test_every_fault_leaves_the_delivery_exact(kafka, tmp_path, seed, capfd):
    group = f"chaos-{seed}"
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}
    loads = [
        LineLoad("lines-poll", tmp_path, f"{group}-poll", transaction_boundary="poll", slot_dedicated="true"),
        LineLoad("lines-interval", tmp_path, f"{group}-interval", **interval),
        NumberedLoad("own-transactions", tmp_path, f"{group}-own", tasks=2),
        SpoolLoad("spool", tmp_path, f"{group}-spool", rows=300),
    ]
    with (
        capfd.disabled(),
        Worker(kafka.bootstrap_servers, tmp_path, SETTINGS, group=group) as worker,
        Campaign(worker, loads, kafka.bootstrap_servers, RECORDS_PER_S) as campaign,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        campaign.run(plan(seed, QUOTAS))
        campaign.prove()
