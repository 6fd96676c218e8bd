"""Sources and a sink in Java: their hosts, slots and worker die and freeze inside each call of a task.

Sources are exactly once, with the boundaries of the runtime and with their own, and where records cross between Java's
classes and Python's; the sink misses nothing, and commits nothing that it has not written. What a zombie's host gives
meanwhile is never seen.
"""

import contextlib
import os
from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.chaos.campaign import TRANSACTIONS, Campaign
from support.chaos.evidence import Evidence
from support.chaos.java_faults import JavaFaults, plan
from support.chaos.java_targets import (
    JavaCounted,
    JavaLines,
    JavaNumbered,
    JavaSink,
    JavaSource,
    JavaTarget,
    Mixed,
)
from support.chaos.load import PLUGIN_PATH
from support.chaos.sink_gates import SinkGates
from support.chaos.sink_matrix import PARTITIONS, SinkFeed
from support.cluster import ZOMBIE_SETTINGS, WorkerOfRun
from support.java_plugins import compile_plugins
from support.long_form import IS_LONG
from support.quick import QUICK

ROUNDS = int(os.environ.get("FENCEPOST_CHAOS_PASSES", "31" if IS_LONG else "2"))
RECORDS_PER_S = 100  # for each source


@pytest.fixture
def plugin_path(tmp_path: Path) -> Path:
    top = tmp_path / "plugins"
    compile_plugins(top / "gated")
    return top


@pytest.mark.chaos
@pytest.mark.timeout(300 * ROUNDS)
def test_every_fault_of_a_java_task_leaves_the_delivery_exact(
    kafka: EmbeddedKafka, plugin_path: Path, tmp_path: Path, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    bootstrap, group = kafka.bootstrap_servers, f"java-{seed}"
    settings = {
        **ZOMBIE_SETTINGS,
        **TRANSACTIONS,
        "java.host.options": QUICK,
        "plugin.path": f"{plugin_path},{PLUGIN_PATH}",
    }
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}
    evidence = Evidence("java-faults", seed)
    with (
        capfd.disabled(),
        SinkGates() as gates,
        WorkerOfRun(bootstrap, tmp_path, settings, group=group) as worker,
        contextlib.ExitStack() as stack,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        loads: list[JavaCounted | JavaNumbered | JavaLines] = [
            JavaCounted(gates.port, "by-poll", tmp_path, f"{group}-by-poll", transaction_boundary="poll"),
            JavaCounted(gates.port, "by-interval", tmp_path, f"{group}-by-interval", **interval),
            JavaNumbered(gates.port, "own", tmp_path, f"{group}-own"),
            Mixed(gates.port, "mixed", tmp_path, f"{group}-mixed"),
            JavaLines(gates.port, "lines", tmp_path, f"{group}-lines"),
        ]
        sinks = [JavaSink(bootstrap, f"{group}-sink-{number}", tmp_path) for number in range(2)]
        for sink in sinks:
            stack.callback(sink.close)
            Admin({"bootstrap.servers": bootstrap}).topics.create(sink.name, partitions=PARTITIONS, replication=1)
            answer = worker.create(sink.name, sink.config(gates.port))
            assert answer.status_code == 201, answer.text
        campaign = stack.enter_context(Campaign(worker, loads, bootstrap, RECORDS_PER_S, evidence))
        feed = stack.enter_context(SinkFeed(bootstrap, sinks))
        targets: list[JavaTarget] = [*(JavaSource(campaign, load) for load in loads), *sinks]
        JavaFaults(worker, targets, gates, evidence).run(plan(seed, ROUNDS, [each.points for each in targets]))
        feed.stop()
        for sink in sinks:
            sink.set_mark()
            eventually(sink.is_past_mark, within_s=120)
            sink.file.mark(sink.committed())
            log = sink.file.read()
            verdict = log.judged(sink.ends)
            print(f"  {sink.name}: {verdict}; {log.records - len(log.firsts)} put again", flush=True)
            assert verdict.is_clean, verdict
            assert not log.faults, log.faults[:5]
        campaign.prove()
