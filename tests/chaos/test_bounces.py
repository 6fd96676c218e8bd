"""Three workers that are bounced one after the other under load, as Apache Kafka's system tests do with Connect's.

Stricter than those: what the source gave is known to its last record, so that a lost tail is seen; records are in
order; every connector goes on after each bounce, and runs in the end, though nobody has restarted anything.
"""

from collections.abc import Iterator

import pytest

from fencepost.kafka.setting.table import BATCH
from support.chaos.campaign import TRANSACTIONS
from support.chaos.cluster_campaign import ClusterCampaign
from support.chaos.evidence import Evidence
from support.chaos.gated_cluster import GatedCluster
from support.chaos.load import PLUGIN_PATH, CountedLoad, NumberedLoad, clients
from support.cluster import ready
from support.long_form import IS_LONG

ROUNDS = 4 if IS_LONG else 1
RECORDS_PER_S = 160
UP_AGAIN_S = 10.0
SETTINGS = {**TRANSACTIONS, "session_timeout_ms": "3000", "slot_lease_ms": "2000", "plugin_path": PLUGIN_PATH}


@pytest.fixture(scope="module")
def gated(kafka, tmp_path_factory) -> Iterator[GatedCluster]:
    directory = tmp_path_factory.mktemp("bounces")
    with GatedCluster(kafka.bootstrap_servers, directory, "bounces", 3, **SETTINGS) as running:
        yield running


@pytest.mark.chaos
@pytest.mark.timeout(200 * ROUNDS)
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_a_bounce_of_every_worker_leaves_the_delivery_exact(kafka, gated, tmp_path, is_clean, seed, capfd):
    how = "SIGTERM" if is_clean else "SIGKILL"
    topic = f"bounces-{how}-{seed}"
    chosen = clients(seed + is_clean)
    by_poll, own = {"producer_client": next(chosen)}, {"producer_client": next(chosen)}
    loads = [
        CountedLoad(f"by-poll-{how}", tmp_path, topic, lines=3, tasks=3, transaction_boundary="poll", **by_poll),
        NumberedLoad(f"own-{how}", tmp_path, f"{topic}-own", tasks=3, **own),
    ]
    evidence = Evidence("bounces", seed)
    with (
        capfd.disabled(),
        ClusterCampaign(gated, loads, kafka.bootstrap_servers, RECORDS_PER_S, evidence) as campaign,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}: {by_poll}, {own}")
        campaign.set_marks()
        campaign.recover(gated.workers, 60)
        for number in range(1, ROUNDS + 1):
            for worker in gated.workers:
                campaign.worker = next(each for each in gated.workers if each is not worker)
                if is_clean:
                    assert worker.stop() == 0
                    worker.process = None
                else:
                    worker.kill()
                ready(worker)
                campaign.set_marks()
                recovery = campaign.recover(gated.workers, UP_AGAIN_S)
                what = f"{how} of a worker, started again"
                evidence.fault(what, "any moment", None, recovery.next_record_s, client=BATCH)  # of one of the loads
                print(f"round {number}, {how}: {recovery}", flush=True)
        campaign.prove()
        for load in loads:
            assert campaign.worker.rest.delete(f"/connectors/{load.name}").status_code == 204
