from fencepost.rest.ui.resources.lineage import flows_of


def test_topics_of_other_clusters_are_other_topics() -> None:
    ends = [{"type": "topic", "name": "t", "cluster": None}, {"type": "topic", "name": "t", "cluster": "us"}]
    (flow,) = flows_of([{"name": "m", "kind": "source", "reads": ends, "writes": [{"type": "external", "name": "/d"}]}])
    assert list(flow.reads) == [("topic", "t"), ("topic", "us: t")]
    assert list(flow.writes) == [("external", "/d")]
