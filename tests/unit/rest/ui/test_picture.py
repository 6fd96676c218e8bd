from fencepost.rest.ui.picture import Flow, Node, around, picture


def topic(name: str) -> Node:
    return ("topic", name)


ORDERS = Flow("orders", "source", [("external", "db")], [topic("orders")])
JOIN = Flow("join", "stream", [topic("orders"), topic("users")], [topic("joined")])
FILES = Flow("files", "sink", [topic("joined")], [("external", "/data")])
ALONE = Flow("alone", "source", [], [topic("x")])


def test_what_leads_to_something_is_to_its_left() -> None:
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
    assert max(box.x + 208 for box in drawn.boxes) <= drawn.width
    assert max(box.y + 42 for box in drawn.boxes) <= drawn.height


def test_a_circle_is_drawn() -> None:
    there, back = Flow("a", "stream", [topic("1")], [topic("2")]), Flow("b", "stream", [topic("2")], [topic("1")])
    drawn = picture([there, back])
    assert drawn is not None
    assert len(drawn.boxes) == 4


def test_neighbours_share_a_topic() -> None:
    assert around([ORDERS, JOIN, FILES, ALONE], "orders") == [ORDERS, JOIN]
    assert around([ORDERS], "absent") == []
    assert picture([]) is None
