"""A direct write uses the same partitions with either client: a rerun may use the other one."""

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader, LogRecord
from fencepost.kafka.setting.table import BATCH, LIBRDKAFKA
from fencepost.record import Repeated
from fencepost.spark.direct_write.options import DirectWriteOptions
from fencepost.transaction import TransactionalWriter

KEYS = [f"key-{n}".encode() for n in range(30)]


def test_both_clients_write_a_key_to_the_same_partition(kafka: EmbeddedKafka, topic_name: str) -> None:
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    Admin(servers).topics.create(topic_name, partitions=8, replication=1)
    for client in (BATCH, LIBRDKAFKA):
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic_name, "producer.client": client}
        writer = TransactionalWriter(DirectWriteOptions.parse(options).transactional_conf(), f"{topic_name}-{client}")
        try:
            writer.open()
            for key in KEYS:  # as markers are written
                writer.send(topic_name, client.encode(), key=key)
            writer.send_columns(Repeated(topic_name, len(KEYS)), [client.encode()] * len(KEYS), KEYS)
            writer.commit()
        finally:
            writer.close()
    found: list[LogRecord] = []
    reader = LogReader(servers, topic_name)
    reader.read_to_end(60, found.append)
    reader.close()
    assert len(found) == 4 * len(KEYS)
    places = {(record.key, record.partition) for record in found}
    assert len(places) == len(KEYS)
    assert len({partition for _, partition in places}) > 1
