"""A mirror of two workers, hurt at both ends and in between while its plan changes: the target is the committed source.

A third of the source's transactions come to nothing; it has tombstones, headers, every codec, and gaps by compaction.
Whether it goes by records or by whole batches is the seed's choice.
"""

import pytest

from support.chaos.evidence import Evidence
from support.chaos.gated_cluster import IMPATIENT, GatedCluster
from support.chaos.mirror_chaos import MirrorChaos
from support.chaos.mirror_fault import Hurt, mirror_plan
from support.long_form import IS_LONG
from support.mirror.two_clusters import Naming, TwoClusters
from support.mirror.workload import QUICK_TO_COMPACT, Workload, Written
from support.proxy import KafkaProxy
from support.quick import quick_kafka

QUOTAS = {
    Hurt.KILL_SLOT: 3,
    Hurt.STOP_SLOT: 1,
    Hurt.KILL_WORKER: 1,
    Hurt.STOP_WORKER: 1,
    Hurt.KILL_SOURCE: 1,
    Hurt.KILL_TARGET: 1,
    Hurt.LOSE_SOURCE: 1,
    Hurt.LOSE_TARGET: 1,
}
LONG_QUOTAS = {
    Hurt.KILL_SLOT: 32,
    Hurt.STOP_SLOT: 8,
    Hurt.KILL_WORKER: 8,
    Hurt.STOP_WORKER: 16,
    Hurt.KILL_SOURCE: 8,
    Hurt.KILL_TARGET: 8,
    Hurt.LOSE_SOURCE: 12,
    Hurt.LOSE_TARGET: 8,
}
TRANSACTIONS_PER_S = 20.0
TOPICS = (
    Written("w-plain", 3, empty=frozenset({1})),
    Written("w-compacted", 2, is_compacted=True),
)


@pytest.mark.chaos
@pytest.mark.timeout(3600 if IS_LONG else 1800)
def test_every_fault_of_a_mirror_leaves_the_target_as_the_committed_source(tmp_path, seed, capfd):
    group, evidence = f"chaos-mirror-{seed}", Evidence("mirror", seed)
    properties = {"group.min.session.timeout.ms": "1000"}
    with (
        capfd.disabled(),
        quick_kafka(properties={**properties, **QUICK_TO_COMPACT}) as source,
        quick_kafka(properties=properties) as target,
        KafkaProxy(source.bootstrap_servers) as proxy,
        TwoClusters(Naming("w-"), source, target) as clusters,
        Workload(source.bootstrap_servers, seed, TOPICS) as workload,
        GatedCluster(target.bootstrap_servers, tmp_path, group, 2, **IMPATIENT) as gated,
    ):
        client = ("librdkafka", "batch")[seed % 2]
        print(f"\nFENCEPOST_CHAOS_SEED={seed} ({client})")
        workload.write(60)
        clusters.await_compacted(workload.given, "w-compacted")
        chaos = MirrorChaos(clusters, workload, gated, proxy, evidence, client)
        plan = mirror_plan(seed, LONG_QUOTAS if IS_LONG else QUOTAS)
        chaos.go_through(plan if IS_LONG else plan[::2], TRANSACTIONS_PER_S)  # each seed has other ones
