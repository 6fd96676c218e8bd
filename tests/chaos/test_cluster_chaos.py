"""Three workers under load, hurt in every way that somebody has thought of: nothing is lost, doubled or torn."""

import contextlib
from collections.abc import Iterator

import pytest

from fencepost.embedded import EmbeddedKafka
from support.chaos.campaign import TRANSACTIONS
from support.chaos.cluster_campaign import ClusterCampaign
from support.chaos.cluster_chaos import ClusterChaos
from support.chaos.cluster_fault import Cut, cluster_plan
from support.chaos.evidence import Evidence
from support.chaos.gated_cluster import GatedCluster
from support.chaos.hold import Coordinator
from support.chaos.leader_writes import LeaderWrites
from support.chaos.load import PLUGIN_PATH, CountedLoad, NumberedLoad
from support.long_form import IS_LONG
from support.quick import quick_kafka

QUOTAS = {Cut.KILL: 1, Cut.STOP: 1, Cut.BROKER_LOST: 1, Cut.PEERS_LOST: 1, Cut.BROKER_KILL: 1}
LONG_QUOTAS = {Cut.KILL: 12, Cut.STOP: 12, Cut.BROKER_LOST: 10, Cut.PEERS_LOST: 8, Cut.BROKER_KILL: 4}
WRITES_EACH = 6 if IS_LONG else 1
RECORDS_PER_S = 160  # for each of four loads
SETTINGS = {
    **TRANSACTIONS,
    "session_timeout_ms": "3000",
    "heartbeat_interval_ms": "500",
    "slot_lease_ms": "2000",
    "task_shutdown_graceful_timeout_ms": "2000",
}


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    """One of its own: it is killed."""
    with quick_kafka(properties={"group.min.session.timeout.ms": "1000"}) as running:
        yield running


@pytest.mark.chaos
@pytest.mark.timeout(3600 if IS_LONG else 1800)
def test_every_fault_of_a_cluster_leaves_the_delivery_exact(broker, tmp_path, seed, capfd):
    group = f"chaos-cluster-{seed}"
    bootstrap = broker.bootstrap_servers
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "300"}
    elastic = CountedLoad("elastic", tmp_path, f"{group}-elastic", lines=5, tasks=3, **interval)
    brief = CountedLoad("brief", tmp_path, f"{group}-brief", lines=2, tasks=2, transaction_boundary="poll")
    own = NumberedLoad("own-transactions", tmp_path, f"{group}-own", tasks=2)
    steady = CountedLoad("steady", tmp_path, f"{group}-steady", lines=3, tasks=3, transaction_boundary="poll")
    with (
        capfd.disabled(),
        contextlib.closing(Coordinator(bootstrap)) as coordinator,
        GatedCluster(bootstrap, tmp_path, group, 3, plugin_path=PLUGIN_PATH, **SETTINGS) as gated,
        ClusterCampaign(
            gated, [elastic, brief, own, steady], bootstrap, RECORDS_PER_S, Evidence("cluster", seed)
        ) as campaign,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        writes = LeaderWrites(gated, bootstrap, elastic, brief)
        faults = cluster_plan(seed, LONG_QUOTAS if IS_LONG else QUOTAS, WRITES_EACH)
        chosen_faults = faults if IS_LONG else faults[::2]  # each seed has other ones
        ClusterChaos(campaign, writes, broker, coordinator).run(chosen_faults)
        campaign.prove()
