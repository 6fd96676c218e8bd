"""MirrorSinkConnector on a running worker: records, positions and offset syncs in one transaction of the target."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from flow import Flow
from mirrored import SOON, await_same

from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.value.position import FORGOTTEN, GroupOffset
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.mirror.rows import rows

TRANSACTIONS = {"transaction.producer": "true"}


class SinkFlow:
    """A connector of the sink type, and its positions and syncs at the target."""

    def __init__(self, flow: Flow, topic: str, client: str) -> None:
        self.flow = flow
        self.client = client
        self.topic = topic
        self.name = ""

    def start(self, *, initial_offsets: Sequence[Mapping[str, Any]] = (), **more: str) -> None:
        more = {"topics": self.topic, "producer__client": self.client, **more}
        asked = {"initial_offsets": initial_offsets} if initial_offsets else {}
        self.name = self.flow.start("Sink", asked=asked, **{**SOON, **TRANSACTIONS, **more})

    @property
    def next_name(self) -> str:
        return self.flow.next_name("Sink")

    @property
    def remote(self) -> str:
        return self.flow.remote(self.topic)

    @property
    def group(self) -> str:
        return f"connect-{self.name}"

    def values(self) -> list[bytes | None]:
        return [row.value for row in rows(self.flow.target.bootstrap, self.remote, 2)[0]]

    def positions(self) -> dict[int, int]:
        found = read_stable({"bootstrap.servers": self.flow.target.bootstrap}, self.group, 30.0)
        return {place.partition: at.offset for place, at in found.items() if at.metadata != FORGOTTEN}

    def await_positions(self, wanted: Mapping[int, int]) -> None:
        """Wait until these partitions have these positions; others may still be at their start."""
        eventually(lambda: wanted.items() <= self.positions().items(), within_s=60)

    def syncs(self) -> dict[TopicPartition, OffsetSync]:
        """Return the last offset sync of each partition."""
        found: dict[TopicPartition, OffsetSync] = {}

        def note(sync: OffsetSync) -> None:
            found[sync.topic_partition] = sync

        topic = f"mm2-offset-syncs.{self.flow.source_alias}.internal"
        reader = LogReader({"bootstrap.servers": self.flow.target.bootstrap}, topic)
        try:
            reader.read_to_end(30, lambda record: note(OffsetSync.decode(record.key, record.value)))
        finally:
            reader.close()
        return found

    def stop(self) -> None:
        self.flow.worker.rest.put(f"/connectors/{self.name}/stop")
        eventually(lambda: self.flow.worker.status(self.name)["connector"]["state"] == "STOPPED")
        eventually(lambda: not self.flow.worker.task_states(self.name))

    def resume(self) -> None:
        self.flow.worker.rest.put(f"/connectors/{self.name}/resume")

    def lose_group(self) -> None:
        GroupOffsets({"bootstrap.servers": self.flow.target.bootstrap}, self.group).delete()
        assert self.positions() == {}


@pytest.fixture(params=["librdkafka", "batch"])
def sink(flow: Flow, topic_name: str, request: pytest.FixtureRequest) -> SinkFlow:
    """Record by record, and in whole batches."""
    return SinkFlow(flow, flow.source.topic(topic_name, partitions=2), request.param)


def test_records_positions_and_syncs_arrive_together(sink: SinkFlow) -> None:
    writer = sink.flow.source
    with writer.transaction() as producer:
        for n in range(300):
            producer.produce(sink.topic, f"committed {n}", partition=0, headers=[("h", b"\x00")])
    writer.write(sink.topic, ["aborted"] * 50, is_committed=False)
    writer.send(sink.topic, ["a", "b"], partition=1)
    sink.start()
    await_same(sink.flow, sink.topic)
    sink.await_positions({0: 352, 1: 2})  # past the markers and what was aborted
    syncs = sink.syncs()
    assert syncs[TopicPartition(sink.topic, 0)].upstream_offset == 299
    assert syncs[TopicPartition(sink.topic, 1)].upstream_offset == 1
    offsets = {o["partition"]["partition"]: o["offset"]["offset"] for o in sink.flow.offsets(sink.name)}
    assert offsets == {0: 351, 1: 1}


def test_sink_resumes_at_its_offsets_which_can_be_moved_and_reset(sink: SinkFlow) -> None:
    writer, rest = sink.flow.source, sink.flow.worker.rest
    writer.send(sink.topic, [f"{n}" for n in range(10)])
    sink.start()
    await_same(sink.flow, sink.topic)
    sink.stop()
    writer.send(sink.topic, ["10"])
    sink.resume()
    await_same(sink.flow, sink.topic)
    told = GroupOffsets({"bootstrap.servers": writer.bootstrap}, sink.group)
    eventually(lambda: told.read().get(TopicPartition(sink.topic, 0), 0) >= 10, within_s=60)  # so that lag can be seen
    sink.stop()
    place = {"cluster": sink.flow.source_alias, "topic": sink.topic, "partition": 0}
    body = {"offsets": [{"partition": place, "offset": {"offset": 8}}]}
    answer = rest.patch(f"/connectors/{sink.name}/offsets", json=body)
    assert answer.status_code == 200, answer.text
    assert sink.positions()[0] == 9
    sink.resume()
    eventually(lambda: sink.values()[11:] == [b"9", b"10"], within_s=60)
    sink.stop()
    answer = rest.delete(f"/connectors/{sink.name}/offsets")
    assert answer.status_code == 200, answer.text
    assert sink.flow.offsets(sink.name) == []
    sink.resume()
    eventually(lambda: len(sink.values()) == 13 + 11, within_s=60)


def test_each_start_commits_the_positions_again(
    sink: SinkFlow,
) -> None:
    sink.flow.source.send(sink.topic, ["a", "b"])
    sink.start()
    sink.await_positions({0: 2})
    sink.stop()
    bootstrap = {"bootstrap.servers": sink.flow.target.bootstrap}
    place = TopicPartition(sink.remote, 0)
    before = read_stable(bootstrap, sink.group, 30.0)[place]
    spaced = before.metadata.replace(":", ": ")  # as good as the other, and what is committed anew is told by it
    GroupOffsets(bootstrap, sink.group).commit([GroupOffset(*place, before.offset, spaced)])
    assert read_stable(bootstrap, sink.group, 30.0)[place].metadata == spaced
    sink.resume()
    eventually(lambda: read_stable(bootstrap, sink.group, 30.0)[place] == before, within_s=60)


def test_positions_of_a_lost_group_are_restored_from_syncs_of_the_target(sink: SinkFlow) -> None:
    sink.flow.source.send(sink.topic, ["a", "b"])
    sink.start()
    await_same(sink.flow, sink.topic)
    sink.stop()
    sink.lose_group()
    sink.flow.source.send(sink.topic, ["c"])
    sink.resume()
    eventually(lambda: sink.positions().get(0) == 3, within_s=60)
    assert sink.values() == [b"a", b"b", b"c"]


def test_e18_a_recreated_topic_is_a_gap_although_the_group_was_lost(sink: SinkFlow) -> None:
    sink.flow.source.send(sink.topic, ["a", "b"])
    sink.start()
    await_same(sink.flow, sink.topic)
    sink.stop()
    sink.lose_group()
    sink.flow.source.recreate(sink.topic, partitions=2)
    sink.flow.source.send(sink.topic, [f"new {n}" for n in range(5)])
    sink.resume()
    trace = eventually(lambda: sink.flow.worker.status(sink.name)["tasks"][0].get("trace"), within_s=60)
    assert f"{sink.topic}-0 was read up to offset 2, and the topic was deleted and created again" in trace
    assert sink.values() == [b"a", b"b"]


def test_e18_a_lagging_sync_doubles_nothing_when_the_source_group_is_ahead(sink: SinkFlow) -> None:
    """As after a flow of the source type, whose syncs come now and then."""
    sink.flow.source.send(sink.topic, ["a", "b", "c"])
    sink.start()
    await_same(sink.flow, sink.topic)
    told = GroupOffsets({"bootstrap.servers": sink.flow.source.bootstrap}, sink.group)
    eventually(lambda: told.read().get(TopicPartition(sink.topic, 0), 0) == 3, within_s=60)
    sink.stop()
    sink.lose_group()
    sync = OffsetSync(TopicPartition(sink.topic, 0), 0, 0)
    sink.flow.target.send(f"mm2-offset-syncs.{sink.flow.source_alias}.internal", [sync.value()], key=sync.key())
    sink.flow.source.send(sink.topic, ["d"])
    sink.resume()
    eventually(lambda: sink.values()[-1] == b"d", within_s=60)
    assert sink.values() == [b"a", b"b", b"c", b"d"]


def test_e18_start_of_a_partition_is_committed_before_its_first_record(sink: SinkFlow) -> None:
    sink.start()
    sink.await_positions({0: 0, 1: 0})
    sink.stop()
    assert [offset["offset"]["offset"] for offset in sink.flow.offsets(sink.name)] == [-1, -1]
    sink.flow.source.recreate(sink.topic, partitions=2)
    sink.flow.source.send(sink.topic, ["of another topic"])
    sink.resume()
    trace = eventually(lambda: sink.flow.worker.status(sink.name)["tasks"][0].get("trace"), within_s=60)
    assert f"{sink.topic}-0 was read up to offset 0, and the topic was deleted and created again" in trace


def test_sink_begins_at_its_initial_offsets(sink: SinkFlow) -> None:
    sink.flow.source.send(sink.topic, ["a", "b", "c"])
    sink.flow.target.topic(sink.remote, partitions=2)
    place = {"cluster": sink.flow.source_alias, "topic": sink.topic, "partition": 0}
    sink.start(initial_offsets=[{"partition": place, "offset": {"offset": 1}}])
    eventually(lambda: sink.values() == [b"c"], within_s=60)
    sink.await_positions({0: 3})


def test_sink_begins_at_offsets_of_kafkas_tools_not_of_a_deleted_connector(
    sink: SinkFlow,
) -> None:
    sink.flow.source.send(sink.topic, ["a", "b", "c"])
    sink.flow.target.topic(sink.remote, partitions=2)
    sink.flow.target.send(sink.remote, ["copied by another mirror"])
    former = {"connector.class": "FileStreamSource", "topic": "t", "file": "f"}
    offsets = [{"partition": {"filename": "f"}, "offset": {"position": 1}}]
    sink.flow.worker.create(sink.next_name, former, initial_offsets=offsets, initial_state="STOPPED")
    sink.flow.worker.rest.delete(f"/connectors/{sink.next_name}")
    eventually(lambda: sink.flow.worker.status(sink.next_name) == {})
    tool = GroupOffsets({"bootstrap.servers": sink.flow.target.bootstrap}, f"connect-{sink.next_name}")
    tool.commit([GroupOffset(sink.remote, 0, 2)])
    sink.start()
    eventually(lambda: sink.values() == [b"copied by another mirror", b"c"], within_s=60)
    sink.await_positions({0: 3})


def test_syncs_from_before_they_were_disabled_restore_no_position(sink: SinkFlow) -> None:
    without = {"emit.offset-syncs.enabled": "false"}
    sink.flow.source.send(sink.topic, ["a"])
    sink.start()
    await_same(sink.flow, sink.topic)
    sink.stop()
    config = sink.flow.config("Sink", **{**SOON, **TRANSACTIONS, **without, "topics": sink.topic})
    sink.flow.worker.rest.put(f"/connectors/{sink.name}/config", json=config)
    sink.resume()
    sink.flow.source.send(sink.topic, ["b", "c"])
    await_same(sink.flow, sink.topic)
    sink.stop()
    sink.await_positions({0: 3})
    sink.lose_group()
    source = GroupOffsets({"bootstrap.servers": sink.flow.source.bootstrap}, sink.group)
    source.commit([GroupOffset(sink.topic, 0, 3)])
    sink.flow.source.send(sink.topic, ["d"])
    sink.resume()
    eventually(lambda: sink.values()[-1] == b"d", within_s=60)
    assert sink.values() == [b"a", b"b", b"c", b"d"]


def test_without_syncs_a_lost_position_is_the_source_groups_or_fails_the_task(sink: SinkFlow) -> None:
    without = {"emit.offset-syncs.enabled": "false"}
    sink.flow.source.send(sink.topic, ["a", "b", "c"])
    sink.start(**without)
    await_same(sink.flow, sink.topic)
    sink.stop()
    sink.lose_group()
    source = GroupOffsets({"bootstrap.servers": sink.flow.source.bootstrap}, sink.group)
    source.commit([GroupOffset(sink.topic, 0, 2)])
    config = sink.flow.config("Sink", **{**SOON, **TRANSACTIONS, **without, "topics": sink.topic})
    url = f"/connectors/{sink.name}/config"
    sink.flow.worker.rest.put(url, json={**config, "on.position.loss": "fail"})
    sink.resume()
    trace = eventually(lambda: sink.flow.worker.status(sink.name)["tasks"][0].get("trace"), within_s=60)
    assert sink.group in trace
    assert "on.position.loss" in trace
    sink.flow.worker.rest.put(url, json={**config, "on.position.loss": "restore"})
    eventually(lambda: sink.values() == [b"a", b"b", b"c", b"c"], within_s=60)
