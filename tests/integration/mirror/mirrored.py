"""Mirrored topics, as they are in both clusters."""

from flow import Flow

from fencepost.testing import eventually
from support.mirror.rows import Row, rows

SOON = {
    "heartbeats__replication__enabled": "false",  # other tests send some at the source that all share
    "source__consumer__fetch__max__wait__ms": "20",
    "refresh__topics__interval__seconds": "1",
    "sync__topic__configs__enabled": "false",
    "sync__topic__acls__enabled": "false",
}
"""What lets a flow hear of everything at once, and do nothing that its test does not look at."""


def await_same(flow: Flow, topic: str, remote: str | None = None, within_s: float = 60) -> dict[int, list[Row]]:
    """Wait until the target has what the source has, in the same partitions and order; return that."""
    count = flow.source.admin.topics.partitions(topic) or 0
    wanted = rows(flow.source.bootstrap, topic, count)
    name = remote or f"{flow.source_alias}.{topic}"

    def is_same() -> bool:
        assert flow.target.admin.topics.partitions(name) == count
        have = rows(flow.target.bootstrap, name, count)
        counts = {number: (len(wanted[number]), len(have[number])) for number in wanted}
        assert have == wanted, f"(wanted, have) by partition: {counts}"
        return True

    eventually(is_same, within_s=within_s, every_s=0.2)
    return wanted
