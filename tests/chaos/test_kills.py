"""Processes die and freeze under load at moments of chance: nothing is lost, doubled or out of order.

The moments that somebody has thought of are in `test_matrix.py`, which `make test` runs; a handful of moments of chance
would add nothing to those.
"""

import pytest

from support.chaos.campaign import TRANSACTIONS, Campaign
from support.chaos.evidence import Evidence
from support.chaos.fault import Kind, plan
from support.chaos.kills import Kills
from support.chaos.load import PLUGIN_PATH, LineLoad, NumberedLoad, SpoolLoad, clients
from support.long_form import IS_LONG
from support.worker import Worker

TIMES = 12
QUOTAS = {Kind.KILL_SLOT: 2 * TIMES, Kind.STOP_SLOT: TIMES, Kind.KILL_WORKER: TIMES, Kind.KILL_SPLIT: TIMES}
RECORDS_PER_S = 400  # for each of four loads
SETTINGS = {
    **TRANSACTIONS,
    "plugin.path": PLUGIN_PATH,
    "slot.lease.ms": "2000",
    # Spark would kill what it has given up; here the zombie has to live until it wakes up.
    "spark.python.task.killTimeout": "600s",
}


@pytest.mark.chaos
@pytest.mark.skipif(not IS_LONG, reason="only in `make chaos`")
@pytest.mark.timeout(900 * TIMES)
def test_every_fault_leaves_the_delivery_exact(kafka, tmp_path, seed, capfd):
    group = f"chaos-{seed}"
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}
    poll = {"transaction_boundary": "poll", "slot_dedicated": "true"}
    own = ({"producer_client": client} for client in clients(seed))
    loads = [
        LineLoad("lines-poll", tmp_path, f"{group}-poll", **next(own), **poll),
        LineLoad("lines-interval", tmp_path, f"{group}-interval", **next(own), **interval),
        SpoolLoad("spool", tmp_path, f"{group}-spool", rows=300, **next(own)),
        NumberedLoad("own-transactions", tmp_path, f"{group}-own", tasks=2, **next(own)),
    ]
    with (
        capfd.disabled(),
        Worker(kafka.bootstrap_servers, tmp_path, SETTINGS, group=group) as worker,
        Campaign(worker, loads, kafka.bootstrap_servers, RECORDS_PER_S, Evidence("kills", seed)) as campaign,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        Kills(campaign).run(plan(seed, QUOTAS))
        campaign.prove()
