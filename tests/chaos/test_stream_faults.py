"""A stream of two workers, hurt while its group rebalances: its output is the function of the committed input.

A third of the input's transactions come to nothing. Now and then an instance of an old program, with a producer for
each partition, does the same in the same group.
"""

import pytest

from fencepost.kafka.admin.client import Admin
from support.chaos.evidence import Evidence
from support.chaos.gated_cluster import IMPATIENT, GatedCluster
from support.chaos.load import PLUGIN_PATH
from support.chaos.stream_chaos import StreamChaos
from support.chaos.stream_fault import StreamHurt, stream_plan
from support.long_form import IS_LONG
from support.mirror.workload import Workload, Written
from support.quick import quick_kafka

QUOTAS = {
    StreamHurt.KILL_SLOT: 4,
    StreamHurt.STOP_SLOT: 1,
    StreamHurt.KILL_WORKER: 1,
    StreamHurt.STOP_WORKER: 1,
    StreamHurt.LOSE_BROKER: 1,
    StreamHurt.KILL_BROKER: 1,
    StreamHurt.RESCALE: 2,
    StreamHurt.KILL_OLD: 1,
    StreamHurt.STOP_OLD: 1,
}
LONG_QUOTAS = {
    StreamHurt.KILL_SLOT: 48,
    StreamHurt.STOP_SLOT: 16,
    StreamHurt.KILL_WORKER: 16,
    StreamHurt.STOP_WORKER: 24,
    StreamHurt.LOSE_BROKER: 24,
    StreamHurt.KILL_BROKER: 16,
    StreamHurt.RESCALE: 32,
    StreamHurt.KILL_OLD: 16,
    StreamHurt.STOP_OLD: 16,
}
TRANSACTIONS_PER_S = 20.0
SETTINGS = {**IMPATIENT, "plugin_path": PLUGIN_PATH}
TOPICS = (Written("s-one", 3), Written("s-other", 1))
TARGET = "numbered"


@pytest.mark.chaos
@pytest.mark.drawn(2)
@pytest.mark.timeout(5400 if IS_LONG else 1800)
def test_every_fault_of_a_stream_leaves_the_function_of_the_committed_input(tmp_path, seed, capfd):
    group, evidence = f"chaos-stream-{seed}", Evidence("stream", seed)
    with (
        capfd.disabled(),
        quick_kafka(properties={"group.min.session.timeout.ms": "1000"}) as kafka,
        Workload(kafka.bootstrap_servers, seed, TOPICS) as workload,
        GatedCluster(kafka.bootstrap_servers, tmp_path, group, 2, **SETTINGS) as gated,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(TARGET, partitions=3, replication=1)
        chaos = StreamChaos(kafka, workload, gated, TARGET, evidence)
        plan = stream_plan(seed, LONG_QUOTAS if IS_LONG else QUOTAS)
        chaos.go_through(plan if IS_LONG else plan[::2], TRANSACTIONS_PER_S)  # each seed has other ones
