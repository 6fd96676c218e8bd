from fencepost.rest.ui.lineage import flows_of


def test_topics_of_other_clusters_are_other_topics() -> None:
    ends = [{"type": "topic", "name": "t", "cluster": None}, {"type": "topic", "name": "t", "cluster": "us"}]
    (flow,) = flows_of([{"name": "m", "kind": "source", "reads": ends, "writes": [{"type": "external", "name": "/d"}]}])
    assert list(flow.reads) == [("topic", "t"), ("topic", "us: t")]
    assert list(flow.writes) == [("external", "/d")]


def test_flow_has_the_worst_state_of_the_connector_and_its_tasks() -> None:
    status = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "FAILED"}]}
    (flow,) = flows_of([{"name": "m", "kind": "source", "reads": [], "writes": []}], {"m": {"status": status}})
    assert flow.state == "FAILED"
