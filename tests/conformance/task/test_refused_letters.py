"""A sink whose dead letters the broker refuses for good, while the group takes a partition away, on the real broker."""

from pathlib import Path

from confluent_kafka import Consumer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.task.channel.message import RunState
from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.sink_stage import StartedSink

PROPERTIES = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false", "errors.tolerance": "all"}


def test_dead_letter_refused_during_a_revocation_fails_the_task(
    log_writer: LogWriter, topic_name: str, tmp_path: Path
) -> None:
    """Nothing else is committed before: the interval is a minute long."""
    topic = log_writer.topic(topic_name, partitions=2)
    letters = log_writer.topic(f"{topic_name}-letters", max_message_bytes="200")
    out = tmp_path / "out"
    for partition in (0, 1):
        log_writer.send(topic, ['"good"', "no JSON " * 100, '"good"'], partition)
    with StartedSink(log_writer.bootstrap, topic, out, properties=PROPERTIES, letters=letters) as started:
        eventually(lambda: out.exists() and out.read_text() == "good\n" * 4, within_s=60)
        client = {"bootstrap.servers": log_writer.bootstrap}
        other = Consumer({**client, "group.id": f"connect-{topic}", "partition.assignment.strategy": strategy(started)})
        other.subscribe([topic])
        try:
            report = eventually(
                lambda: (other.poll(0.1), next((r for r in started.reports if r.state.is_over), None))[1], within_s=60
            )
        finally:
            other.close()
    assert report is not None
    assert report.state is RunState.FAILED
    assert f"errors.deadletterqueue.topic.name={letters}" in (report.trace or "")
    assert max(GroupOffsets(client, f"connect-{topic}").read().values(), default=0) <= 1
    assert Admin(client).offsets.ends([(letters, 0)], read_committed=False) == {(letters, 0): 0}


def strategy(started: StartedSink) -> str:
    """Return how the group assigns partitions, as its members have to agree."""
    conf = started.runner.spec.input.consumer_conf
    return str(conf.get("partition.assignment.strategy", "range,roundrobin"))
