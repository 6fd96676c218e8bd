"""A broker that the controller and the other brokers do not reach while clients do, and one that hangs.

It answers clients as before, from what it last knew: who leads, where logs end, who coordinates. Its word alone decides
nothing: each flow goes on within 45 s, 75 s where the worker is restarted meanwhile, and in the end nothing is missing,
and nothing is there twice.
"""

import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from support.chaos.cut_campaign import CutCampaign
from support.chaos.cut_flows import (
    FED_LINES,
    PROGRAM,
    SPARK,
    THERE,
    Flow,
    Program,
    Watch,
    flows,
    java_flows,
    mirror_flows,
    program_flows,
    spark_flows,
    topics_of,
)
from support.chaos.evidence import Evidence
from support.cluster import LightWorker
from support.cut_brokers import BROKERS, CutBrokers
from support.jars import SINK, SOURCE
from support.java_plugins import compile_plugins
from support.long_form import IS_LONG
from support.quick import QUICK
from support.stream_stage import PLUGINS
from support.worker import Worker

FAULTS = 100 if IS_LONG else 12
SETTINGS = {f"{kind}.storage.replication.factor": str(len(BROKERS)) for kind in ("config", "offset", "status")}


def others(seed: int, java: list[Flow], spark: list[Flow], program: list[Flow]) -> list[Flow]:
    """Return flows that take a JVM: all where the campaign is long, else those of Java or of a worker with Spark."""
    return [*java, *spark, *program] if IS_LONG else random.Random(seed).choice((java, spark))


@pytest.fixture
def campaign(kafka: EmbeddedKafka, tmp_path: Path, seed: int) -> Iterator[CutCampaign]:
    evidence = Evidence("cut-broker", seed)
    topic, there = f"cut-{seed}-{uuid.uuid4().hex[:6]}", kafka.bootstrap_servers
    watches: dict[str, Watch] = {}
    with ExitStack() as stack:
        brokers = stack.enter_context(CutBrokers(cluster_id="fencepost-tests-cut0000"))
        here = brokers.bootstrap_servers
        shown, shown_there = (lambda name: watches[here].numbers(name)), (lambda name: watches[there].numbers(name))
        made = [
            *flows(tmp_path, topic, shown),
            *mirror_flows(topic, here, there, shown, shown_there),
            *others(
                seed,
                java_flows(tmp_path, topic, shown),
                spark_flows(tmp_path, topic, shown),
                program_flows(tmp_path, topic, shown),
            ),
        ]
        for servers, replicas in ((here, len(BROKERS)), (there, 1)):
            topics = topics_of(made, topic, there=servers == there)
            admin = Admin({"bootstrap.servers": servers})
            for name, partitions in topics.items():
                admin.topics.create(name, partitions=partitions, replication=replicas)
            watches[servers] = stack.enter_context(Watch(servers, topics))
        (tmp_path / FED_LINES).touch()
        own = {
            "plugin.path": f"{PLUGINS},{_java(tmp_path)}",
            "slots.max": "2",
            "java.host.options": QUICK,
            "offset.flush.interval.ms": "1000",
        }
        workers: dict[str, Worker | Program] = {}
        for at in {flow.at: 0 for flow in made}:
            if at == PROGRAM:
                workers[at] = stack.enter_context(Program(here, tmp_path, topic))
                continue
            kind, servers = Worker if at == SPARK else LightWorker, there if at == THERE else here
            factors = {} if at == THERE else SETTINGS
            workers[at] = stack.enter_context(kind(servers, tmp_path, {**factors, **own}, group=f"{topic}-{at}"))
        made_campaign = CutCampaign(brokers, there, workers, made, list(topics_of(made, topic)), evidence)
        stack.callback(made_campaign.close)
        yield made_campaign
    evidence.close()


def _java(directory: Path) -> Path:
    """Return a directory for `plugin.path` with connectors in Java."""
    top = directory / "plugins"
    compile_plugins(top / "numbers")
    services = top / "numbers" / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / SOURCE).write_text("tests.NumberSourceConnector\n")
    (services / SINK).write_text("tests.LinesSinkConnector\n")
    return top


@pytest.mark.chaos
@pytest.mark.timeout(1200 + 300 * FAULTS)
def test_no_record_is_lost_or_doubled_when_a_broker_is_cut_off_from_the_others(
    campaign: CutCampaign, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with capfd.disabled():
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        campaign.begin()
        campaign.carry_out(seed, FAULTS)
        verdicts = campaign.verdicts()
    unclean = {name: str(verdict) for name, verdict in verdicts.items() if not verdict.is_clean}
    campaign.note("; ".join(unclean) or "clean")
    assert not unclean, unclean
