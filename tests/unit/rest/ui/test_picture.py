from fencepost.rest.ui.lineage import WIDTH, Box, Flow, Node, around, picture


def topic(name: str) -> Node:
    return ("topic", name)


ORDERS = Flow("orders", "source", [("external", "db")], [topic("orders")])
JOIN = Flow("join", "stream", [topic("orders"), topic("users")], [topic("joined")])
FILES = Flow("files", "sink", [topic("joined")], [("external", "/data")])
ALONE = Flow("alone", "source", [], [topic("x")])


def test_boxes_are_drawn_left_of_the_boxes_that_they_feed() -> None:
    drawn = picture([FILES, JOIN, ORDERS])
    assert drawn is not None
    x = {box.node: box.x for box in drawn.boxes}
    way = [
        ("external", "db"),
        ORDERS.node,
        topic("orders"),
        JOIN.node,
        topic("joined"),
        FILES.node,
        ("external", "/data"),
    ]
    assert [x[node] for node in way] == sorted({x[node] for node in way})
    assert len(drawn.wires) == 7


def test_no_two_boxes_overlap() -> None:
    drawn = picture([FILES, JOIN, ORDERS, ALONE])
    assert drawn is not None
    places = [(box.x, box.y) for box in drawn.boxes]
    assert len(set(places)) == len(places)
    assert max(box.x + box.width for box in drawn.boxes) <= drawn.width <= WIDTH
    assert max(box.y + box.height for box in drawn.boxes) <= drawn.height


def test_name_has_three_lines_before_it_is_shortened() -> None:
    def lines(name: str) -> list[str]:
        return list(Box(topic(name), 0, 0, 180).lines)

    assert lines("orders") == ["orders"]
    assert lines("inventory.public.customer-addresses") == ["inventory.public.", "customer-addresses"]
    shortened = lines("inventory.public.customer-addresses-of-a-very-very-large-tenant")
    assert len(shortened) == 3
    assert shortened[2].endswith("tenant")
    assert "…" in shortened[2]


def test_box_of_a_connector_has_its_state() -> None:
    drawn = picture([Flow("orders", "source", [], [topic("orders")], "FAILED")])
    assert drawn is not None
    assert {box.what: box.state for box in drawn.boxes} == {"connector": "FAILED", "topic": ""}


def test_flows_in_a_circle_are_drawn() -> None:
    there, back = Flow("a", "stream", [topic("1")], [topic("2")]), Flow("b", "stream", [topic("2")], [topic("1")])
    drawn = picture([there, back])
    assert drawn is not None
    assert len(drawn.boxes) == 4


def test_neighbours_share_a_topic() -> None:
    assert around([ORDERS, JOIN, FILES, ALONE], "orders") == [ORDERS, JOIN]
    assert around([ORDERS], "absent") == []
    assert picture([]) is None


def test_box_of_a_topic_leads_to_its_records_if_the_caller_may_see_them() -> None:
    elsewhere = topic("target: orders")
    drawn = picture(
        [Flow("a", "stream", [topic("1")], [topic("2"), elsewhere], is_open=True), Flow("b", "sink", [topic("3")], [])]
    )
    assert drawn is not None
    hrefs = {box.name: box.href for box in drawn.boxes if box.what == "topic"}
    here = "/ui/connectors/a/topics"
    assert hrefs == {"1": f"{here}/1", "2": f"{here}/2", "target: orders": "", "3": ""}
