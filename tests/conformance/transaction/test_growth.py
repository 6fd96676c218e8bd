"""A task's process does not grow, however many transactions the task makes."""

import gc

from confluent_kafka import KafkaError

from fencepost.testing import eventually
from support.late.lone_task import LoneTask

TRANSACTIONS = 250


def test_error_objects_do_not_accumulate_with_transactions(kafka, topic, offsets_topic):
    with LoneTask(kafka.bootstrap_servers, topic, offsets_topic, (1,) * 100_000) as task:
        counters = task.runner.counters
        eventually(lambda: counters.commits > 20, every_s=0.001)
        before, begun = errors_alive(), counters.commits
        eventually(lambda: counters.commits >= begun + TRANSACTIONS, within_s=120)
        assert errors_alive() - before < TRANSACTIONS / 10


def errors_alive() -> int:
    gc.collect()
    return sum(isinstance(each, KafkaError) for each in gc.get_objects())
