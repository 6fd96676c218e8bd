"""The old way: a program with a transactional producer for each input partition, whose id keeps predecessors out.

Runs as a process of its own: `python -m bench.old_way BOOTSTRAP SOURCE TARGET PARTITIONS` copies a topic for as long as
its standard input is open.
"""

import sys
import threading

from confluent_kafka import Consumer, Producer, TopicPartition

_MOST = 500
_WAIT_S = 0.1
_ASK_S = 60.0


def main(bootstrap: str, source: str, target: str, partitions: str) -> None:
    """Copy from the beginning on."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": f"old-{target}", "enable.auto.commit": False,
        "isolation.level": "read_committed", "auto.offset.reset": "earliest",
    })  # fmt: skip
    producers = [_producer(bootstrap, f"old-{target}-{number}") for number in range(int(partitions))]
    consumer.subscribe([source])
    is_over = threading.Event()
    threading.Thread(target=_await_end, args=(is_over,), daemon=True).start()
    print("ready", flush=True)
    while not is_over.is_set():
        found: dict[int, list[tuple[bytes | None, bytes | None, int]]] = {}
        for message in consumer.consume(_MOST, _WAIT_S):
            if message.error() is None:
                found.setdefault(message.partition(), []).append((message.key(), message.value(), message.offset()))
        for partition, records in found.items():
            producer = producers[partition]
            producer.begin_transaction()
            for key, value, _ in records:
                producer.produce(target, value, key)
            position = TopicPartition(source, partition, records[-1][2] + 1)
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata())
            producer.commit_transaction()


def _await_end(is_over: threading.Event) -> None:
    sys.stdin.read()
    is_over.set()


def _producer(bootstrap: str, id_: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": id_, "retry.backoff.ms": 5})
    producer.init_transactions(_ASK_S)
    return producer


if __name__ == "__main__":
    main(*sys.argv[1:])
