"""The pages for a new connector: which classes there are, and a form that says no more than it has to."""

import pytest
from starlette.testclient import TestClient

from fencepost import __version__
from fencepost.rest.ui.config import Tile, chosen, installable, summaries, tiles
from fencepost.rest.ui.page import words

FILE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def check(client: TestClient, **fields: str) -> str:
    sent = {"token": client.cookies["fencepost-form"], "c.connector.class": "FileStreamSource", **fields}
    sent = {name.replace("__", "."): value for name, value in sent.items()}
    return client.post("/ui/new/check", data=sent, headers={"hx-request": "true"}).text


def test_form_shows_no_error_before_something_was_typed(client: TestClient) -> None:
    page = client.get("/ui/new?plugin=FileStreamSource").text
    assert 'name="c.file"' in page
    assert "Missing required" not in page
    assert "aria-invalid" not in page


def test_incomplete_new_form_names_missing_keys_without_an_error(client: TestClient) -> None:
    text = check(client, c__name="x")
    assert "Still missing: file" in text
    assert "Missing required" not in text
    assert "can be used" not in text


def test_submitted_form_keeps_its_errors_while_it_is_edited(client: TestClient) -> None:
    token = client.cookies["fencepost-form"]
    page = client.post("/ui/new", data={"token": token, "c.connector.class": "FileStreamSource"})
    assert 'name="sent"' in page.text
    assert "Missing required" in page.text
    assert "Missing required" in check(client, c__name="x", sent="1")


def test_tiles_describe_classes_and_are_found_by_their_description() -> None:
    found = tiles([{"class": FILE, "type": "source", "version": "1"}, {"class": "a.B", "type": "sink"}], summaries())
    assert [(tile.name, tile.kind, tile.version) for tile in found] == [
        ("B", "sink", None),
        ("FileStreamSourceConnector", "source", "1"),
    ]
    assert found[1].about.startswith("Sends each line of a file to a topic")
    assert chosen(found, "LINE topic") == [found[1]]
    assert chosen(found, "absent") == []
    assert chosen(found, "") == found


def test_page_of_classes_is_searched(client: TestClient) -> None:
    assert "Sink</strong>" in client.get("/ui/new?q=sink").text
    assert "Source</strong>" not in client.get("/ui/new?q=sink").text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("io.x.MySqlConnector", "io.<wbr>x.<wbr>My<wbr>Sql<wbr>Connector"),
        ("a<b>.", "a&lt;b&gt;."),
    ],
)
def test_class_names_break_between_words(name: str, shown: str) -> None:
    assert str(words(name)) == shown


def test_tile_has_the_name_of_its_class() -> None:
    assert Tile("a.b.C", "sink", None, "").name == "C"


def test_page_of_the_api_names_the_version_of_the_product(client: TestClient) -> None:
    assert client.get("/openapi.json").json()["info"]["version"] == __version__


def test_page_names_the_command_for_a_known_class_that_is_not_installed() -> None:
    postgres = "io.debezium.connector.postgresql.PostgresConnector"
    command = "fencepost plugin install io.debezium:debezium-connector-postgres"
    assert (postgres, command) in installable("postgres", [])
    assert postgres not in dict(installable("postgres", [Tile(postgres, "source", None, "")]))


def test_command_that_installs_a_class_is_on_the_page(client: TestClient) -> None:
    assert "plugin install io.debezium:debezium-connector-postgres" in client.get("/ui/new?q=postgres").text
