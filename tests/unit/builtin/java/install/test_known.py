"""The table of connectors that public configs name, and what installs each."""

import pytest

from fencepost.builtin.java.install.known import _PLUGINS, plugin_of, search
from fencepost.builtin.java.install.origin import Archive, Coordinates, HubPlugin, origin_of
from fencepost.plugin import PluginKind
from fencepost.plugin.mistake import offer_for

COMMANDS = {
    "io.debezium.connector.postgresql.PostgresConnector": "io.debezium:debezium-connector-postgres",
    "io.debezium.connector.mysql.MySqlConnector": "io.debezium:debezium-connector-mysql",
    "io.debezium.connector.jdbc.JdbcSinkConnector": "io.debezium:debezium-connector-jdbc",
    "com.mongodb.kafka.connect.MongoSinkConnector": "org.mongodb.kafka:mongo-kafka-connect",
    "org.apache.iceberg.connect.IcebergSinkConnector": "org.apache.iceberg:iceberg-kafka-connect",
    "io.confluent.connect.jdbc.JdbcSinkConnector": "confluentinc/kafka-connect-jdbc",
    "io.confluent.connect.jdbc.JdbcSourceConnector": "confluentinc/kafka-connect-jdbc",
    "io.confluent.connect.s3.S3SinkConnector": "confluentinc/kafka-connect-s3",
    "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector": "confluentinc/kafka-connect-elasticsearch",
    "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector": "io.aiven:s3-connector-for-apache-kafka",
    "org.apache.camel.kafkaconnector.timersource.CamelTimersourceSourceConnector": (
        "org.apache.camel.kafkaconnector:camel-timer-source-kafka-connector"
    ),
}


@pytest.mark.parametrize(("name", "place"), COMMANDS.items())
def test_advice_for_a_missing_class_names_the_install_command(name: str, place: str) -> None:
    assert f"`fencepost plugin install {place}`" in (offer_for(PluginKind.CONNECTOR, name) or "")


def test_advice_for_a_missing_class_names_the_download_page() -> None:
    offer = offer_for(PluginKind.CONNECTOR, "io.aiven.connect.jdbc.JdbcSinkConnector") or ""
    assert "FILE`, with an archive of https://github.com/Aiven-Open/jdbc-connector-for-apache-kafka/releases" in offer


def test_table_has_thirty_plugins_that_can_be_installed_by_name() -> None:
    assert len({name for plugin in _PLUGINS for name in plugin.classes}) >= 30
    for plugin in _PLUGINS:
        if "://" not in plugin.place:
            origin = origin_of(plugin.place)
            assert not isinstance(origin, Archive)
            assert origin_of(plugin.artifact or "") == origin
            assert isinstance(origin, Coordinates if ":" in plugin.place else HubPlugin)


def test_search_finds_plugins_by_part_of_their_name_in_any_case() -> None:
    found = {plugin.place for _, plugin in search("JDBC")}
    assert found >= {"io.debezium:debezium-connector-jdbc", "confluentinc/kafka-connect-jdbc"}
    assert list(search("nothing-like-it")) == []
    assert plugin_of("JdbcSinkConnector") is None
