"""Streaming queries with `writeStream.format("fencepost")` on a Spark cluster that loses executors, and on brokers that
die, hang, are cut off, or hand their transactions over. Speculation is on.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from support.chaos.evidence import Evidence
from support.chaos.query_campaign import QueryCampaign
from support.chaos.query_driver import python_path
from support.chaos.query_input import PARTITIONS, QueryInput
from support.chaos.query_losses import SPECULATION, QueryLosses, plan, short_plan
from support.chaos.query_program import QUERIES, Given
from support.cut_brokers import BROKERS, CutBrokers
from support.long_form import IS_LONG
from support.standalone import StandaloneCluster, standalone

PASSES = 8 if IS_LONG else 1


@pytest.fixture
def brokers() -> Iterator[CutBrokers]:
    with CutBrokers(cluster_id="fencepost-tests-query00", has_client_lines=True) as running:
        yield running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with standalone(tmp_path, cores=2, are_apart=True) as running:
        yield running


@pytest.fixture
def campaign(brokers: CutBrokers, cluster: StandaloneCluster, tmp_path: Path, seed: int) -> Iterator[QueryCampaign]:
    servers, topic, chosen = brokers.bootstrap_servers, f"queries-{seed}", random.Random(seed)
    queries = QUERIES if IS_LONG else (QUERIES[0], chosen.choice(QUERIES[1:]))  # the others keep state
    admin = Admin({"bootstrap.servers": servers})
    for name in (topic, *(f"{topic}-{query}" for query in queries)):
        admin.topics.create(name, partitions=PARTITIONS, replication=len(BROKERS))
    conf = SPECULATION | {
        "spark.master": cluster.url,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
        "spark.executorEnv.PYTHONPATH": python_path(),
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.task.maxFailures": "8",
    }
    given = Given(conf, servers, servers, topic, str(tmp_path), queries)
    evidence = Evidence("query-losses", seed)
    feed = QueryInput(topic, Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 2}))
    with QueryCampaign(given, tmp_path, feed, chosen, evidence) as made:
        yield made
    evidence.close()


@pytest.mark.chaos
@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="reading streams needs Spark 4.2, as the page says")
@pytest.mark.timeout(1800 * PASSES)
def test_each_batch_is_one_transaction_when_executors_and_brokers_are_lost(
    campaign: QueryCampaign,
    brokers: CutBrokers,
    cluster: StandaloneCluster,
    seed: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    losses, faults = QueryLosses(campaign, brokers, cluster), plan(seed, PASSES) if IS_LONG else short_plan(seed)
    servers = brokers.bootstrap_servers.split(",")
    with capfd.disabled():
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        campaign.begin()
        losses.run(faults)
        brokers.await_well()
        verdicts = campaign.verdicts(lambda place: servers[brokers.leader_of(*place) - 1])
        print(*verdicts.values(), sep="\n", flush=True)
    campaign.ensure_clean(verdicts)
    assert losses.hits == len(faults)
