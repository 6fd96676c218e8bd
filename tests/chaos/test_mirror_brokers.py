"""A mirror between two clusters of three brokers with `min.insync.replicas=2`, whose leaders move, die and stand still.

A third of the source's transactions come to nothing; it has tombstones, headers, every codec, and gaps by compaction.
Whether the mirror goes by records or by whole batches is the seed's choice.
"""

from pathlib import Path

import pytest

from support.brokers import IN_SYNC, Brokers
from support.chaos.evidence import Evidence
from support.chaos.mirror_brokers import End, MirrorBrokers, broker_plan
from support.cluster import Cluster
from support.long_form import IS_LONG
from support.mirror.two_clusters import Naming, TwoClusters
from support.mirror.workload import QUICK_TO_COMPACT, Workload, Written

FAULTS = 50
REPLICAS = 3
TRANSACTIONS_PER_S = 20.0
QUICK = {
    IN_SYNC: "2",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.fetch.timeout.ms": "5000",  # on a busy machine controllers are late, too
    "group.min.session.timeout.ms": "1000",
}
SETTINGS = {f"{kind}_storage_replication_factor": str(REPLICAS) for kind in ("config", "offset", "status")}
TOPICS = (Written("b-plain", 3, empty=frozenset({1})), Written("b-compacted", 2, is_compacted=True))


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not IS_LONG, reason="only in `make chaos`: six brokers")
def test_no_broker_fault_at_either_end_of_a_mirror_loses_or_doubles_a_record(
    tmp_path: Path, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    client = ("librdkafka", "batch")[seed % 2]
    with (
        capfd.disabled(),
        Brokers({**QUICK, **QUICK_TO_COMPACT}) as source,
        Brokers(QUICK, cluster_id="fencepost-tests-target0") as target,
        TwoClusters(Naming("b-"), source, target) as clusters,
        Workload(source.bootstrap_servers, seed, TOPICS, replication=REPLICAS) as workload,
        Cluster(target.bootstrap_servers, tmp_path, f"mirror-brokers-{seed}", 2, **SETTINGS) as workers,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed} ({client})")
        workers.start()
        workload.write(60)
        brokers = {End.SOURCE: source, End.TARGET: target}
        chaos = MirrorBrokers(brokers, clusters, workload, workers, Evidence("mirror-brokers", seed), client)
        chaos.go_through(broker_plan(seed, FAULTS), TRANSACTIONS_PER_S)
