"""A program of the old style (before KIP-447): a consumer in the group, and a producer for each partition.

Its transactional ids are `<prefix>-<partition>`. Offsets go into the transaction of the output by the name of the
group alone, without its generation: only who takes the same id fences it. It reads where a partition stands then.

    python -m support.old_style.per_partition BOOTSTRAP GROUP INPUT OUTPUT PREFIX CONSUMERS [POINT,POINT,...]

It says "ready" once all partitions of the input are assigned, to each consumer its share. In the transaction that holds
a record with `hold` in it, of partition p, it says "at <point> <p>" at the point of that number, and waits for "go".
With points, a consumer that is refused says so, and is gone, and the last one says "ended"; without, it begins anew, as
a supervisor would have it.
"""

import sys
import threading
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

POINTS = ("begun", "produced", "offsets", "end")
_ASK_S = 30.0
_MOST = 20


class Program:
    """The state that the consumers of the program share."""

    def __init__(self, bootstrap: str, group: str, topics: tuple[str, str], prefix: str, consumers: int) -> None:
        self.bootstrap, self.group, self.prefix = bootstrap, group, prefix
        self.input, self.output = topics
        self.points: list[str] = []
        self._consumers = consumers
        self.go = threading.Event()
        self._saying = threading.Lock()
        self._assigned: Counter[int] = Counter()

    def say(self, text: str) -> None:
        with self._saying:
            print(text, flush=True)

    def assigned(self, instance: int, count: int) -> None:
        self._assigned[instance] = count
        shares = self._assigned.values()
        if self._assigned.total() == self._all() and len(shares) == self._consumers and max(shares) - min(shares) <= 1:
            self.say("ready")

    def hold(self, point: str, partition: int) -> None:
        if self.points and self.points[partition % len(self.points)] == point:
            self.say(f"at {point} {partition}")
            self.go.wait()

    def _all(self) -> int:
        client = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "asks"})
        try:
            return len(client.list_topics(self.input, timeout=_ASK_S).topics[self.input].partitions)
        finally:
            client.close()


class Instance(threading.Thread):
    """One consumer with the producers of its partitions."""

    def __init__(self, program: Program, number: int) -> None:
        super().__init__(daemon=True)
        self._program = program
        self._number = number
        self._producers: dict[int, Producer] = {}
        self._of_group = Consumer({"group.id": program.group}).consumer_group_metadata()  # of no generation

    def run(self) -> None:
        while True:
            try:
                self._run()
            except KafkaException as error:
                self._program.say(f"refused {error.args[0].name()}")
                if self._program.points:
                    return

    def _run(self) -> None:
        program = self._program
        consumer = Consumer(
            {
                "bootstrap.servers": program.bootstrap,
                "group.id": program.group,
                "session.timeout.ms": 8000,
                "heartbeat.interval.ms": 300,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
            }
        )
        consumer.subscribe([program.input], on_assign=self._take, on_revoke=self._give)
        try:
            while True:
                by_partition: dict[int, list[Any]] = {}
                for message in consumer.consume(_MOST, 0.05):
                    if message.error() is None:
                        by_partition.setdefault(message.partition(), []).append(message)
                for partition, messages in by_partition.items():
                    self._process(partition, messages)
        finally:
            self._producers.clear()
            consumer.close()

    def _take(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            producer = Producer(
                {
                    "bootstrap.servers": self._program.bootstrap,
                    "transactional.id": f"{self._program.prefix}-{each.partition}",
                    "linger.ms": 0,
                    "retry.backoff.ms": 5,
                    "reconnect.backoff.ms": 1,
                }
            )
            producer.init_transactions(_ASK_S)
            self._producers[each.partition] = producer
        consumer.assign(consumer.committed(partitions, timeout=_ASK_S))
        self._program.assigned(self._number, len(partitions))

    def _give(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._producers.clear()
        self._program.assigned(self._number, 0)

    def _process(self, partition: int, messages: list[Any]) -> None:
        program, producer = self._program, self._producers[partition]
        is_marked = any(b"hold" in message.value() for message in messages)

        def at(point: str) -> None:
            if is_marked:
                program.hold(point, partition)

        producer.begin_transaction()
        at("begun")
        for message in messages:
            producer.produce(program.output, message.value())
        producer.flush(_ASK_S)
        at("produced")
        behind = TopicPartition(program.input, partition, messages[-1].offset() + 1)
        producer.send_offsets_to_transaction([behind], self._of_group, _ASK_S)
        at("offsets")
        at("end")
        producer.commit_transaction(_ASK_S)


def main(arguments: list[str]) -> None:
    bootstrap, group, input_topic, output_topic, prefix, consumers, *points = arguments
    program = Program(bootstrap, group, (input_topic, output_topic), prefix, int(consumers))
    program.points = points[0].split(",") if points else []
    instances = [Instance(program, number) for number in range(int(consumers))]
    for instance in instances:
        instance.start()
    threading.Thread(target=_tell_end, args=(program, instances), daemon=True).start()
    for line in sys.stdin:
        if line == "go\n":
            program.go.set()


def _tell_end(program: Program, instances: list[Instance]) -> None:
    for instance in instances:
        instance.join()
    program.say("ended")


if __name__ == "__main__":
    main(sys.argv[1:])
