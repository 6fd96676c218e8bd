"""A mirror with a slow link to the target makes its transactions smaller."""

from flow import Flow
from mirrored import SOON, await_same

from support.proxy import KafkaProxy

PARTITIONS, RECORDS, RECORD_BYTES = 4, 10, 100_000
BYTES_PER_S = 400_000  # the 4 MB of one answer take ten seconds
TIMEOUT_MS = "4000"


def test_transactions_become_smaller_after_one_has_exceeded_its_time_out(flow: Flow, topic_name: str) -> None:
    topic = flow.source.topic(topic_name, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        flow.source.send(topic, ["x" * RECORD_BYTES] * RECORDS, partition)
    with KafkaProxy(flow.target.bootstrap) as proxy:
        proxy.slow_down(BYTES_PER_S)
        override = {"bootstrap.servers": proxy.bootstrap_servers, "transaction.timeout.ms": TIMEOUT_MS}
        config = {f"producer.override.{key}": value for key, value in override.items()}
        name = flow.start("Sink", **{**SOON, "topics": topic, "transaction.producer": "true", **config})
        await_same(flow, topic, within_s=240)
        flow.worker.wait_for_tasks(name, "RUNNING")
