import pytest
from starlette.testclient import TestClient

VALIDATE = "/connector-plugins/FileStreamSource/config/validate"


@pytest.mark.parametrize(
    ("query", "count"),
    [("", 2), ("?connectorsOnly=true", 2), ("?connectorsOnly=false", 3), ("?connectorsOnly=False", 3)],
)
def test_plugins_are_listed(client: TestClient, query: str, count: int) -> None:
    answer = client.get(f"/connector-plugins{query}").json()
    assert len(answer) == count
    assert answer[:2] == [
        {"class": "FileStreamSink", "type": "sink", "version": "4.3.1"},
        {"class": "FileStreamSource", "type": "source"},
    ]


DEFINITION = {
    "name": "file",
    "type": "STRING",
    "required": True,
    "default_value": None,
    "importance": "HIGH",
    "documentation": "The file.",
    "group": None,
    "order_in_group": -1,
    "width": "NONE",
    "display_name": "file",
    "dependents": [],
}


def test_plugin_lists_its_config_keys(client: TestClient) -> None:
    assert client.get("/connector-plugins/FileStreamSource/config").json() == [DEFINITION]


def test_an_unknown_plugin_answers_404(client: TestClient) -> None:
    answer = client.get("/connector-plugins/No%2FSuch/config")
    assert (answer.status_code, answer.json()["message"]) == (404, "Unknown plugin No/Such.")


def test_validate_reports_every_key(client: TestClient) -> None:
    answer = client.put(VALIDATE, json={"connector.class": "FileStreamSource", "odd": "x"})
    value = {"recommended_values": [], "visible": True, "value": None}
    missing = 'Missing required configuration "file"'
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "name": "FileStreamSource",
            "error_count": 1,
            "groups": ["Common"],
            "configs": [
                {"definition": DEFINITION, "value": {**value, "name": "file", "errors": [missing]}},
                {"definition": None, "value": {**value, "name": "odd", "errors": ["odd"]}},
            ],
        },
    )


@pytest.mark.parametrize(
    ("plugin", "included", "status"),
    [
        ("FileStreamSource", "FileStreamSource", 200),
        ("FileStreamSource", "FileStreamSourceConnector", 200),
        ("FileStreamSourceConnector", "org.apache.kafka.connect.file.FileStreamSourceConnector", 200),
        ("FileStreamSource", "org.apache.kafka.connect.file.FileStreamSourceConnector", 200),
        ("org.apache.kafka.connect.file.FileStreamSourceConnector", "FileStreamSource", 400),
        ("FileStreamSink", "FileStreamSource", 400),
    ],
)
def test_validate_compares_the_class_with_the_path(client: TestClient, plugin: str, included: str, status: int) -> None:
    answer = client.put(f"/connector-plugins/{plugin}/config/validate", json={"connector.class": included})
    assert answer.status_code == status
    if status == 400:
        expected = f"Included connector type {included} does not match request type {plugin}"
        assert answer.json()["message"] == expected


@pytest.mark.parametrize("config", [{}, {"connector.class": None}, {"connector.class": ""}])
def test_validate_without_class_answers_400(client: TestClient, config: dict[str, str | None]) -> None:
    answer = client.put(VALIDATE, json=config)
    assert answer.status_code == 400
    assert answer.json()["message"] == "Connector config contains no connector type; set connector.class."
