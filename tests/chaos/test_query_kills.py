"""Streaming queries with `writeStream.format("fencepost")` whose processes are killed at each point of a transaction.

Spark's own sink writes the same projection in the same program, and is printed for comparison: it doubles records.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from bench.sink_jars import sink_jars

from fencepost.embedded import EmbeddedKafka
from support.chaos.evidence import Evidence
from support.chaos.query_campaign import QueryCampaign
from support.chaos.query_faults import QueryFaults, QueryWire, plan, short_plan
from support.chaos.query_input import PARTITIONS, QueryInput
from support.chaos.query_program import QUERIES, SPARKS_OWN, Given
from support.log_writer import LogWriter
from support.long_form import IS_LONG
from support.proxy import KafkaProxy

PASSES, LEAST_FAULTS = (9, 200) if IS_LONG else (1, 24)


@pytest.fixture
def proxy(kafka: EmbeddedKafka) -> Iterator[KafkaProxy]:
    """What the sinks reach the broker through."""
    with KafkaProxy(kafka.bootstrap_servers) as made:
        yield made


@pytest.fixture
def campaign(
    kafka: EmbeddedKafka, proxy: KafkaProxy, log_writer: LogWriter, tmp_path: Path, seed: int
) -> Iterator[QueryCampaign]:
    topic, servers = f"queries-{seed}", kafka.bootstrap_servers
    queries = [*QUERIES, SPARKS_OWN]
    evidence = Evidence("query-kills", seed)
    for name in (topic, *(f"{topic}-{query}" for query in queries)):
        log_writer.topic(name, PARTITIONS)
    jars = [str(path) for path in sink_jars()]
    given = Given({}, servers, proxy.bootstrap_servers, topic, str(tmp_path), queries, jars)
    feed = QueryInput(topic, log_writer.plain, log_writer)
    with QueryCampaign(given, tmp_path, feed, random.Random(seed), evidence) as made:
        yield made
    evidence.close()


@pytest.mark.chaos
@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="reading streams needs Spark 4.2, as the page says")
@pytest.mark.timeout(1800 * PASSES)
def test_each_batch_is_one_transaction_when_processes_of_a_query_are_killed(
    campaign: QueryCampaign, proxy: KafkaProxy, kafka: EmbeddedKafka, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    faults = QueryFaults(campaign, QueryWire(proxy, campaign.given.topic, campaign.given.queries))
    with capfd.disabled():
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        campaign.begin()
        faults.run(plan(seed, PASSES) if IS_LONG else short_plan(seed))
        verdicts = campaign.verdicts(lambda _: kafka.bootstrap_servers)
        print(*verdicts.values(), sep="\n", flush=True)
    sparks = verdicts.pop(SPARKS_OWN)
    campaign.ensure_clean(verdicts)
    assert sparks.delivery.duplicated, "Spark's own sink has doubled nothing: no fault has hit the queries"
    assert faults.hits >= LEAST_FAULTS
