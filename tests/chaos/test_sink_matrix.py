"""The crash matrix of sinks: a fault before, in and after each call of a task and each commit of its offsets."""

import contextlib
import os

import pytest

from fencepost.kafka.admin.client import Admin
from support.chaos.evidence import Evidence
from support.chaos.load import PLUGIN_PATH
from support.chaos.sink_gates import SinkGates
from support.chaos.sink_matrix import PARTITIONS, SinkFeed, SinkMatrix, SinkTarget
from support.chaos.sink_point import sink_matrix
from support.cluster import ZOMBIE_SETTINGS, WorkerOfRun
from support.long_form import IS_LONG
from support.proxy import KafkaProxy

PASSES = int(os.environ.get("FENCEPOST_CHAOS_PASSES", "9" if IS_LONG else "1"))
TARGETS = 6
SETTINGS = {**ZOMBIE_SETTINGS, "plugin.path": PLUGIN_PATH}


@pytest.mark.chaos
@pytest.mark.timeout(600 * PASSES)
def test_every_fault_at_every_point_of_a_sinks_calls_loses_nothing(kafka, topic_name, tmp_path, seed, capfd):
    """At least once, no gap, nothing committed that was not flushed, and put again only what was not committed."""
    bootstrap = kafka.bootstrap_servers
    targets = [SinkTarget(bootstrap, f"sink-{seed}-{number}", tmp_path) for number in range(TARGETS)]
    for target in targets:
        Admin({"bootstrap.servers": bootstrap}).topics.create(target.name, partitions=PARTITIONS, replication=1)
    with (
        capfd.disabled(),
        KafkaProxy(bootstrap) as proxy,
        SinkGates() as gates,
        contextlib.closing(Evidence("sink-matrix", seed)) as evidence,
        WorkerOfRun(
            bootstrap,
            tmp_path,
            {**SETTINGS, "consumer.bootstrap.servers": proxy.bootstrap_servers},
            group=f"sinks-{seed}",
        ) as worker,
        SinkFeed(bootstrap, targets) as feed,
        contextlib.ExitStack() as readers,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        for target in targets:
            readers.callback(target.close)
            created = worker.create(target.name, target.config(gates.port))
            assert created.status_code == 201, created.text
        matrix = SinkMatrix(worker, targets, gates, proxy, evidence)
        rounds = sink_matrix(seed, PASSES, TARGETS)
        matrix.run(rounds if IS_LONG else rounds[::2])  # each seed has other ones
        feed.stop()
        evidence.records = matrix.prove()
        evidence.verdict = "clean"
