"""A flow whose source does not accept commits of its group."""

from contextlib import closing

import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.plan_input import PlanInput
from fencepost.kafka.setting.client_settings import plan_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.log_writer import LogWriter


def test_a_new_partition_is_read_soon_although_the_group_is_not_authorized(
    source_writer: LogWriter, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client, left to itself, waits for the group's coordinator for 45 s before it begins with anything."""
    monkeypatch.setattr("fencepost.kafka.read.plan_input._LOOK_EVERY_S", 0.1)
    first, later = (TopicPartition(f"{topic_name}-{name}", 0) for name in ("first", "later"))
    conf = {"bootstrap.servers": source_writer.bootstrap}
    with (
        closing(Admin(conf)) as admin,
        closing(PlanInput(plan_conf(conf).conf, admin, {first: None, later: None})) as reader,
    ):
        for place in (first, later):
            source_writer.topic(place.topic)
            source_writer.send(place.topic, ["a"])
            eventually(lambda: place in reader.poll(0.1, 500).next_offsets(), within_s=30)  # noqa: B023
            reader.commit([GroupOffset(*first, 1)])
        eventually(lambda: reader.poll(0.1, 500) is not None and reader.commit_error, within_s=60)
