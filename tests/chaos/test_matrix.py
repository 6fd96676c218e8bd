"""The crash matrix: every kind of fault at every point of a transaction, the point confirmed by the broker."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from support.chaos.campaign import TRANSACTIONS, Campaign
from support.chaos.evidence import Evidence
from support.chaos.hold import Coordinator, Target
from support.chaos.load import PLUGIN_PATH, LineLoad, NumberedLoad, SpoolLoad, clients
from support.chaos.matrix import Matrix, Network
from support.chaos.point import TaskKind, matrix
from support.long_form import IS_LONG
from support.proxy import KafkaProxy
from support.quick import quick_kafka
from support.worker import Worker, free_port

PASSES = int(os.environ.get("FENCEPOST_CHAOS_PASSES", "7" if IS_LONG else "1"))
RECORDS_PER_S = 100  # for each of six loads; it is the faults that count
SETTINGS = {
    **TRANSACTIONS,
    "plugin.path": PLUGIN_PATH,
    "slot.lease.ms": "2000",
    # Spark would kill what it has given up; here the zombie has to live until it wakes up.
    "spark.python.task.killTimeout": "600s",
}


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """A broker of its own, which tells itself to come in by a proxy: so its markers can be withheld."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        internal = stack.enter_context(KafkaProxy("127.0.0.1:0"))
        advertised = f"CLIENT://127.0.0.1:{port},INTERNAL://{internal.bootstrap_servers}"
        properties = {"advertised.listeners": advertised, "group.min.session.timeout.ms": "1000"}
        broker = stack.enter_context(quick_kafka(port=port, properties=properties))
        internal.lead_to(broker.internal_servers)
        yield Network(broker, stack.enter_context(KafkaProxy(broker.bootstrap_servers)), internal)


@pytest.mark.chaos
@pytest.mark.drawn(2)
@pytest.mark.timeout(900 * PASSES)
def test_every_fault_at_every_point_of_a_transaction_leaves_the_delivery_exact(network, tmp_path, seed, capfd):
    """Every other task writes with the batch client; which ones is the seed's choice."""
    group = f"matrix-{seed}"
    bootstrap = network.broker.bootstrap_servers
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}
    chosen = clients(seed)
    of_load: dict[str, str] = {}

    def own(name: str, **more: str) -> dict[str, str]:
        of_load[name] = next(chosen)
        return {"slot_dedicated": "true", "producer_client": of_load[name], **more}

    # With six tasks there are two rounds for the twelve points of a kind: it is the time that costs, not the tasks.
    polls = [
        LineLoad(name, tmp_path, f"{group}-{name}", **own(name, transaction_boundary="poll"))
        for name in ("lines-poll-a", "lines-poll-b")
    ]
    timed = [
        LineLoad(name, tmp_path, f"{group}-{name}", **own(name, **interval))
        for name in ("lines-interval-a", "lines-interval-b")
    ]
    numbered = NumberedLoad("own-transactions", tmp_path, f"{group}-own", tasks=2, **own("own-transactions"))
    spool = SpoolLoad("spool", tmp_path, f"{group}-spool", rows=200, producer_client=next(chosen))
    of_load["spool"] = spool.config()["producer.client"]
    tasks = [*((lines, 0, lines.name) for lines in (*polls, *timed)), (numbered, 0, 0), (numbered, 1, 1)]

    def target(load, task, line, task_kind=TaskKind.SLOT):
        name = f"{group}-{load.name}-{task}"
        return Target(load, task_kind, line, (name, f"{name}#1"), f"{group}-offsets", of_load[load.name])

    targets = [*(target(*task) for task in tasks), target(spool, 0, spool.name, TaskKind.SPLIT)]
    settings = {
        **SETTINGS,
        "producer.bootstrap.servers": network.producers.bootstrap_servers,
    }
    with (
        capfd.disabled(),
        contextlib.closing(Coordinator(bootstrap)) as coordinator,
        Worker(bootstrap, tmp_path, settings, group=group) as worker,
        Campaign(
            worker, [*polls, *timed, numbered, spool], bootstrap, RECORDS_PER_S, Evidence("matrix", seed)
        ) as campaign,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        rounds = matrix(seed, PASSES, [t.task_kind for t in targets])
        chosen_rounds = rounds if IS_LONG else rounds[::4]  # each seed has other ones
        Matrix(campaign, targets, network, coordinator).run(chosen_rounds)
        campaign.prove()
