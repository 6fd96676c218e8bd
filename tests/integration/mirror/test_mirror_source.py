"""MirrorSourceConnector on a running worker: from one real cluster to another."""

import os
import signal
import time
from typing import Any

import pytest
from flow import Flow
from mirrored import SOON, await_same

from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.cli.cluster.mirror_status import of_workers
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import TopicAcl
from fencepost.kafka.read.log import LogReader
from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.mirror.rows import rows
from support.proxy import KafkaProxy


@pytest.fixture
def topic(source_writer: LogWriter, topic_name: str) -> str:
    return source_writer.topic(topic_name, partitions=2)


def start(flow: Flow, topics: str, *, tasks: int = 1, **more: str) -> str:
    return flow.start("Source", tasks=tasks, **{**SOON, "topics": topics, **more})


def numbers(first: int, stop: int) -> list[str]:
    return [str(n) for n in range(first, stop)]


def source_offset(flow: Flow, name: str, partition: int = 0) -> dict[str, Any] | None:
    """Return the committed offset of a partition, without its topic's id."""
    found = {o["partition"]["partition"]: o["offset"] for o in flow.offsets(name) if "gap" not in o["partition"]}
    return found.get(partition)


@pytest.mark.parametrize("client", ["librdkafka", "batch"])
def test_records_arrive_byte_by_byte_in_their_partitions_and_order(flow: Flow, topic_name: str, client: str) -> None:
    writer, topic = flow.source, flow.source.topic(topic_name, partitions=3)
    headers = [("h", b"\x00\xff"), ("h", b""), ("empty", None)]
    yesterday = int(time.time() * 1000) - 86_400_000  # a broker deletes before long what is older than a week
    writer.send(topic, [f"plain {n}" for n in range(700)], partition=0, key=b"\xff\x00", timestamp=yesterday)
    writer.send(topic, ["with headers"], partition=1, headers=headers)
    with writer.transaction() as producer:
        for n in range(300):
            producer.produce(topic, f"committed {n}", key=f"k{n}", partition=n % 2)
        producer.produce(topic, None, key=b"a tombstone", partition=1)
        producer.produce(topic, b"", key=b"", partition=1)
    writer.write(topic, ["aborted"] * 50, partition=1, is_committed=False)
    writer.settle([topic])
    name = start(flow, topic, tasks=2, tasks__max="2", producer__client=client)
    found = await_same(flow, topic)
    assert [len(found[number]) for number in range(3)] == [850, 153, 0]
    # Behind the aborted tail: 1 + 152 records and their marker, 50 aborted ones and theirs.
    eventually(lambda: (source_offset(flow, name, 1) or {}).get("offset") == 204)
    writer.send(topic, ["later"], partition=2)
    await_same(flow, topic)


def test_a_killed_slot_loses_and_repeats_nothing(flow: Flow, topic: str) -> None:
    name = start(flow, topic, tasks=2, tasks__max="2")
    for n in range(3):
        flow.source.send(topic, numbers(n * 2_000, n * 2_000 + 2_000), partition=n % 2)
        flow.source.write(topic, ["aborted"] * 10, partition=n % 2, is_committed=False)
        for pid in eventually(flow.worker.slots).values():
            os.kill(pid, signal.SIGKILL)
        flow.source.send(topic, numbers(-n * 1_000, 0), partition=n % 2)
    await_same(flow, topic, within_s=120)
    flow.worker.wait_for_tasks(name, "RUNNING", "RUNNING")


def test_new_topics_partitions_and_heartbeats_are_picked_up(flow: Flow, topic: str) -> None:
    writer = flow.source
    if writer.admin.topics.partitions("heartbeats") is None:
        writer.topic("heartbeats")
    start(flow, f"{topic}.*", heartbeats__replication__enabled="true")
    other = writer.topic(f"{topic}-other")
    writer.send(other, ["a"])
    await_same(flow, other)
    sources = Admin({"bootstrap.servers": writer.bootstrap})
    assert sources.topics.add_partitions({topic: 4}) == {}
    sources.close()
    eventually(lambda: writer.admin.topics.partitions(topic) == 4)
    writer.send(topic, ["in a new partition"], partition=3)
    await_same(flow, topic)
    eventually(lambda: flow.target.admin.topics.partitions(f"{flow.source_alias}.heartbeats"))


@pytest.mark.parametrize("location", ["source", "target"])
def test_offset_syncs_map_source_offsets_to_target_offsets(flow: Flow, topic: str, location: str) -> None:
    flow.source.send(topic, numbers(0, 5))
    start(flow, topic, **{"offset-syncs__topic__location": location, "offset__lag__max": "0"})
    await_same(flow, topic)
    flow.source.send(topic, numbers(5, 9))
    await_same(flow, topic)
    is_at_source = location == "source"
    bootstrap = (flow.source if is_at_source else flow.target).bootstrap
    syncs_topic = f"mm2-offset-syncs.{flow.target_alias if is_at_source else flow.source_alias}.internal"

    def syncs() -> list[OffsetSync]:
        found = [OffsetSync.decode(row.key, row.value) for row in rows(bootstrap, syncs_topic, 1)[0]]
        return found if found and found[-1].upstream_offset == 8 else []

    found = eventually(syncs)
    remote = values_by_offset(flow, f"{flow.source_alias}.{topic}")
    assert {sync.topic_partition for sync in found} == {(topic, 0)}
    assert all(remote[sync.downstream_offset] == str(sync.upstream_offset) for sync in found)


def values_by_offset(flow: Flow, topic: str) -> dict[int, str]:
    """Return the values in partition 0 of a topic of the target."""
    found: dict[int, str] = {}
    log = LogReader({"bootstrap.servers": flow.target.bootstrap}, topic)
    try:
        log.read_to_end(30, lambda r: found.update({r.offset: (r.value or b"").decode()} if r.partition == 0 else {}))
    finally:
        log.close()
    return found


def test_a_gap_fails_the_task_until_an_administrator_moves_the_position(flow: Flow, topic: str) -> None:
    flow.source.send(topic, numbers(0, 10))
    name = start(flow, topic)
    await_same(flow, topic)
    worker = flow.worker
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.status(name)["connector"]["state"] == "STOPPED" and not worker.task_states(name))
    place = {"cluster": flow.source_alias, "topic": topic, "partition": 0}
    stays = {"offsets": [{"partition": place, "offset": {"offset": 9}}]}
    answer = worker.rest.patch(f"/connectors/{name}/offsets", json=stays)  # fences a task that would read what comes
    assert answer.status_code == 200, answer.text
    flow.source.send(topic, numbers(10, 20))
    flow.source.truncate(topic, 15)
    worker.rest.put(f"/connectors/{name}/resume")
    (failed,) = worker.wait_for_tasks(name, "FAILED")
    trace = failed["trace"]
    assert f"{topic}-0 was read up to offset 10, and the log begins beyond the position" in trace
    assert f"PATCH /connectors/{name}/offsets" in trace
    assert "on.source.gap=record" in trace
    worker.rest.put(f"/connectors/{name}/stop")
    eventually(lambda: worker.status(name)["connector"]["state"] == "STOPPED" and not worker.task_states(name))
    body = {"offsets": [{"partition": place, "offset": {"offset": 16}}]}
    refused = {"offsets": [{"partition": {**place, "cluster": "elsewhere"}, "offset": {"offset": 16}}]}
    answer = worker.rest.patch(f"/connectors/{name}/offsets", json=refused)
    assert answer.status_code == 500, answer.text
    assert f"this connector's source is '{flow.source_alias}'" in answer.text
    assert worker.rest.patch(f"/connectors/{name}/offsets", json=body).status_code == 200
    worker.rest.put(f"/connectors/{name}/resume")
    remote = f"{flow.source_alias}.{topic}"
    wanted = [*numbers(0, 10), "17", "18", "19"]
    eventually(lambda: [row.value.decode() for row in rows(flow.target.bootstrap, remote, 2)[0]] == wanted, within_s=60)


def test_a_recorded_gap_is_stored_and_records_after_the_gap_are_mirrored(flow: Flow, topic: str) -> None:
    flow.source.send(topic, numbers(0, 10))
    name = start(flow, topic, on__source__gap="record")
    await_same(flow, topic)
    eventually(lambda: (source_offset(flow, name) or {}).get("offset") == 9)
    assert (source_offset(flow, name) or {})["leader_epoch"] == 0  # nobody else has led yet
    flow.source.recreate(topic, partitions=2)
    flow.source.send(topic, numbers(100, 120))
    remote = f"{flow.source_alias}.{topic}"
    wanted = [*numbers(0, 10), *numbers(100, 120)]
    eventually(lambda: [row.value.decode() for row in rows(flow.target.bootstrap, remote, 2)[0]] == wanted, within_s=60)

    def recorded() -> dict[str, Any] | None:
        gaps = [o["offset"] for o in flow.offsets(name) if o["partition"].get("gap") == 10]
        return gaps[0] if gaps else None

    gap = eventually(recorded)
    assert gap is not None
    assert (gap["reason"], gap["position"], gap["log_start"]) == ("recreated", 10, 0)
    told = flow.worker.rest.get(f"/connectors/{name}/gaps").json()["gaps"]
    assert {**gap, "cluster": flow.source_alias, "topic": topic, "partition": 0} in told
    place = {"connector": name, "source": flow.source_alias, "topic": remote, "partition": "0"}
    eventually(lambda: flow.worker.metric("fencepost_mirror_gaps_total", **place) == 1)
    records = "kafka_connect_mirror_mirrorsourceconnector_record_count"
    # 20 where the second partition had the task begin anew between the two
    eventually(lambda: flow.worker.metric(records, **place) in (20, 30))
    assert (
        0
        < flow.worker.metric("kafka_connect_mirror_mirrorsourceconnector_replication_latency_ms_max", **place)
        < 600_000
    )
    flow.worker.wait_for_tasks(name, "RUNNING")


def test_mirror_waits_for_an_unreachable_source(flow: Flow, topic: str) -> None:
    flow.source.send(topic, numbers(0, 10))
    with KafkaProxy(flow.source.bootstrap) as proxy:
        away = {"source__cluster__bootstrap__servers": proxy.bootstrap_servers, "admin__timeout__ms": "1000"}
        proxy.pause()
        name = flow.create("Source", **{**SOON, "topics": topic, **away})
        eventually(lambda: "are not known yet" in flow.worker.newest_log_text())
        proxy.resume()
        flow.worker.wait_for_tasks(name, "RUNNING")
        await_same(flow, topic)
        proxy.pause()
        proxy.reset_all()
        flow.source.send(topic, numbers(10, 20))
        proxy.resume()
        await_same(flow, topic)
        assert flow.worker.task_states(name) == ["RUNNING"]


def test_mirror_continues_at_the_offsets_of_mirrormaker(flow: Flow, topic: str) -> None:
    flow.source.send(topic, numbers(0, 10))
    name = flow.create("Source", asked={"initial_state": "STOPPED"}, **{**SOON, "topics": topic})
    place = {"cluster": flow.source_alias, "topic": topic, "partition": 0}
    offsets = {"offsets": [{"partition": place, "offset": {"offset": 6}}]}
    eventually(lambda: flow.worker.rest.patch(f"/connectors/{name}/offsets", json=offsets).status_code == 200)
    flow.worker.rest.put(f"/connectors/{name}/resume")
    remote = f"{flow.source_alias}.{topic}"
    eventually(lambda: [r.value for r in rows(flow.target.bootstrap, remote, 2)[0]] == [b"7", b"8", b"9"], within_s=60)


def test_with_the_identity_policy_topics_keep_their_names(flow: Flow, topic: str) -> None:
    flow.source.send(topic, numbers(0, 5))
    name = start(flow, topic, replication__policy__class="IdentityReplicationPolicy")
    await_same(flow, topic, remote=topic)
    # The other type would mirror everything once more.
    other = flow.config("Sink", topics=topic, replication__policy__class="IdentityReplicationPolicy")
    answer = flow.worker.rest.put(f"/connectors/{name}/config", json=other)
    assert (answer.status_code, "fencepost mirror migrate" in answer.text) == (400, True), answer.text


def test_an_unreadable_topic_is_reported_and_other_topics_are_mirrored(flow: Flow, topic: str) -> None:
    closed = flow.source.topic(f"{topic}-closed")
    flow.source.send(closed, ["a secret"])
    sources = Admin({"bootstrap.servers": flow.source.bootstrap})
    rights = [("DESCRIBE", "ALLOW"), ("DESCRIBE_CONFIGS", "ALLOW"), ("READ", "DENY")]
    acls = [TopicAcl(closed, "User:ANONYMOUS", "*", *right) for right in rights]
    assert sources.acls.create(acls) == {}
    sources.close()
    name = start(flow, f"{topic}.*")
    flow.source.send(topic, numbers(0, 5))
    await_same(flow, topic)
    eventually(lambda: f"topic {closed} is not read, the others are" in flow.worker.newest_log_text())
    assert flow.worker.task_states(name) == ["RUNNING"]
    remark = f"Topics not mirrored, while the others are (1): {closed}: READ on it is not granted at the source"
    eventually(lambda: flow.worker.status(name)["connector"].get("trace") == remark)
    assert f'fencepost_connector_has_remark{{connector="{name}"}} 1.0' in flow.worker.rest.get("/metrics").text
    told = {one.name: one.remarks for one in of_workers(str(flow.worker.rest.base_url))}
    assert told[name] == [remark]
    assert rows(flow.target.bootstrap, f"{flow.source_alias}.{closed}", 1) == {0: []}


def test_an_oversized_record_fails_the_task_with_the_producers_size_setting(
    flow: Flow, source_writer: LogWriter, topic_name: str
) -> None:
    topic = source_writer.topic(topic_name, max_message_bytes="4000000")
    flow.source.send(topic, ["x" * 2_000_000])
    name = flow.create("Source", **{**SOON, "topics": topic})
    (failed,) = flow.worker.wait_for_tasks(name, "FAILED")
    trace = failed["trace"]
    assert topic in trace
    assert "producer.override.max.request.size" in trace
    config = flow.config("Source", **{**SOON, "topics": topic, "producer__override__max__request__size": "4000000"})
    assert flow.worker.rest.put(f"/connectors/{name}/config", json=config).status_code == 200
    await_same(flow, topic)


def test_the_same_cluster_as_source_and_target_is_refused(flow: Flow, topic: str) -> None:
    """The same brokers under another name, so that the two settings differ."""
    servers = flow.source.bootstrap.replace("127.0.0.1", "localhost")
    name = flow.create("Source", topics=topic, target__cluster__bootstrap__servers=servers)
    trace = flow.connector_trace(name)
    assert "source.cluster.bootstrap.servers and target.cluster.bootstrap.servers belong to the same cluster" in trace
