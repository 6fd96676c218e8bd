"""`fencepost mirror status`: what it prints."""

from fencepost.cli.cluster.mirror_status import FlowStatus, TopicStatus, shown

GAP = {"topic": "t", "partition": 0, "position": 4, "log_start": 9}


def test_mirror_status_prints_a_line_per_flow_and_a_table_of_topics() -> None:
    topics = [
        TopicStatus("orders", "A.orders", 4, 12, 3_210, 150),
        TopicStatus("quiet", "A.quiet", 1, 0, 0, None),
        TopicStatus("new", "A.new", 2, None, None, None),
    ]
    status = FlowStatus("A->B", "m", "RUNNING", ["RUNNING", "FAILED", "RUNNING"], [GAP], topics, remarks=["why"])
    assert list(shown(status)) == [
        "A->B  m  RUNNING  tasks: 1 FAILED, 2 RUNNING",
        "why",
        'gap: {"topic": "t", "partition": 0, "position": 4, "log_start": 9}',
        "topic   remote topic  partitions  behind             for    last sync",
        "orders  A.orders      4           12                 3.2 s  0.1 s",
        "quiet   A.quiet       1           0                  0.0 s  -",
        "new     A.new         2           not at the target  -      -",
        "",
    ]


def test_mirror_status_prints_the_reason_that_a_flow_cannot_be_checked() -> None:
    status = FlowStatus("A->B", "m", "RUNNING", [], [], [], "not looked at, as workers do not tell x: give the file")
    assert list(shown(status)) == ["A->B  m  RUNNING  tasks: none", status.note, ""]
    assert status.to_json()["note"] == status.note
