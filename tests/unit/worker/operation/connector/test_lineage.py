"""What connectors read and write, by their configs and the topics that they have used."""

import pytest

from fencepost.cluster.info import LineageEnd
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.connector.answer import _external, lineage_of

Ends = list[tuple[str, str, str | None]]


def lineage(config: dict[str, str], *used: str) -> tuple[str, Ends, Ends]:
    found = lineage_of(ClusterSnapshot(connectors={"c": config}), "c", used)

    def plain(ends: object) -> Ends:
        assert isinstance(ends, list)
        assert all(isinstance(end, LineageEnd) for end in ends)
        return [(end.type, end.name, end.cluster) for end in ends]

    return found.kind, plain(list(found.reads)), plain(list(found.writes))


def test_lineage_of_a_source_has_its_file_and_its_topics() -> None:
    config = {"connector.class": "FileStreamSource", "file": "/f", "topic": "t"}
    assert lineage(config) == ("source", [("external", "/f", None)], [("topic", "t", None)])
    assert lineage(config, "b", "a")[2] == [("topic", "a", None), ("topic", "b", None)]


def test_lineage_of_a_sink_shows_its_pattern_until_topics_are_known() -> None:
    config = {"connector.class": "FileStreamSink", "file": "/f"}
    assert lineage({**config, "topics": "b, a"}) == (
        "sink",
        [("topic", "a", None), ("topic", "b", None)],
        [("external", "/f", None)],
    )
    assert lineage({**config, "topics.regex": "t.*"})[1] == [("pattern", "t.*", None)]
    assert lineage({**config, "topics.regex": "t.*"}, "t1", "dead")[1] == [("topic", "t1", None)]


@pytest.mark.parametrize("url", ["https://user:geheim@host:9/path?key=geheim", "jdbc:x://user:geheim@host/db"])
def test_a_url_shows_no_credentials(url: str) -> None:
    ((kind, name, _),) = lineage({"connector.class": "FileStreamSource", "file": url})[1]
    assert (kind, "geheim" in name) == ("external", False)


@pytest.mark.parametrize("place", ["user:geheim@host:27017/db", "jdbc:oracle:thin:user/geheim@//host:1521/db"])
def test_an_address_without_slashes_shows_no_credentials_either(place: str) -> None:
    config = {"connector.class": "FileStreamSource", "file": place}
    assert lineage(config)[1] == [("external", "FileStreamSource", None)]


def test_name_of_an_unknown_class_is_shown_when_its_kind_is_known() -> None:
    assert lineage({"connector.class": "org.example.Odd", "topics": "t"}) == ("unknown", [("topic", "t", None)], [])
    assert lineage({"connector.class": "Datagen", "topic": "t"})[1] == [("external", "Datagen", None)]


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"database.hostname": "127.0.0.1"}, "Postgres 127.0.0.1"),
        ({"database.hostname": "db", "database.port": "5432", "database.dbname": "shop"}, "Postgres db:5432/shop"),
        ({"connection.url": "jdbc:postgresql://db/shop"}, "jdbc:postgresql://db/shop"),
        ({"file": "/f"}, "/f"),
        ({"s3.bucket.name": "lake"}, "Postgres lake"),
    ],
)
def test_outside_system_is_named_when_its_address_does_not_name_it(config: dict[str, str], name: str) -> None:
    assert _external({"connector.class": "io.debezium.connector.postgresql.PostgresConnector", **config}).name == name
