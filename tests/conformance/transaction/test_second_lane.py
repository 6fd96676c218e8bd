"""A task that takes a second producer while it runs: it waits for nobody."""

from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.task.delivery import lanes
from fencepost.testing import eventually
from fencepost.transaction import TransactionalWriter
from support.late.lone_task import LoneTask

TRANSACTIONS = 100_000  # more than can be done before it ends


def test_a_second_lane_does_not_wait_for_the_transactions_of_other_tasks(kafka, topic, offsets_topic, monkeypatch):
    monkeypatch.setattr(lanes, "_NARROW_AFTER", 10**9)
    conf = transactional_conf({"bootstrap.servers": kafka.bootstrap_servers}, f"other-{topic}").conf
    other = TransactionalWriter(conf, f"other-{topic}")
    made = LoneTask(kafka.bootstrap_servers, topic, offsets_topic, (1,) * TRANSACTIONS, lanes=2)
    runner = made.runner
    runner.uses_both_lanes = False  # before it starts: it begins with one
    with made as task:
        eventually(lambda: runner.counters.commits > 0, every_s=0.001)
        other.open()
        other.send(offsets_topic, b"{}", key=b'["other",{}]')
        other.flush()
        monkeypatch.undo()
        eventually(lambda: runner.uses_both_lanes, within_s=60)
        before = runner.counters.commits
        eventually(lambda: runner.counters.commits > before + 10, within_s=40)
        assert task.producers_retired == 0
        other.abort()
        other.close()
