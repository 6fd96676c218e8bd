"""Where the plug-ins are that public configs name most: in a Maven repository, on Confluent's Hub, or on a page.

Nothing here asks a network. Versions are not listed: the newest is looked up when a plug-in is installed.
"""

from collections.abc import Iterator
from typing import NamedTuple

from fencepost.api import ConnectError


class InstallError(ConnectError):
    """Nothing was installed or removed. The text says why, and what to do."""


class KnownPlugin(NamedTuple):
    """A plug-in: GROUP:ARTIFACT, OWNER/NAME of the Hub, or the URL of a page with archives; and its classes."""

    place: str
    classes: tuple[str, ...]

    @property
    def artifact(self) -> str | None:
        """Return its name without group or owner; None if it is on a page."""
        return None if "://" in self.place else self.place.replace("/", ":").partition(":")[2]

    @property
    def plain_command(self) -> str:
        """Return `command` for a table, without its marks."""
        return self.command.replace("`", "")

    @property
    def command(self) -> str:
        """Return the command that installs it, for a sentence."""
        if "://" in self.place:
            return f"`fencepost plugin install FILE`, with an archive of {self.place}"
        return f"`fencepost plugin install {self.place}`"


_DEBEZIUM, _CAMEL = "io.debezium.connector.", "org.apache.camel.kafkaconnector."
_CONFLUENT = "io.confluent.connect."
_PLUGINS = (
    KnownPlugin("io.debezium:debezium-connector-postgres", (_DEBEZIUM + "postgresql.PostgresConnector",)),
    KnownPlugin("io.debezium:debezium-connector-mysql", (_DEBEZIUM + "mysql.MySqlConnector",)),
    KnownPlugin("io.debezium:debezium-connector-mariadb", (_DEBEZIUM + "mariadb.MariaDbConnector",)),
    KnownPlugin("io.debezium:debezium-connector-sqlserver", (_DEBEZIUM + "sqlserver.SqlServerConnector",)),
    KnownPlugin("io.debezium:debezium-connector-oracle", (_DEBEZIUM + "oracle.OracleConnector",)),
    KnownPlugin("io.debezium:debezium-connector-db2", (_DEBEZIUM + "db2.Db2Connector",)),
    KnownPlugin(
        "io.debezium:debezium-connector-mongodb",
        (_DEBEZIUM + "mongodb.MongoDbConnector", _DEBEZIUM + "mongodb.MongoDbSinkConnector"),
    ),
    KnownPlugin("io.debezium:debezium-connector-vitess", (_DEBEZIUM + "vitess.VitessConnector",)),
    KnownPlugin("io.debezium:debezium-connector-spanner", (_DEBEZIUM + "spanner.SpannerConnector",)),
    KnownPlugin("io.debezium:debezium-connector-informix", (_DEBEZIUM + "informix.InformixConnector",)),
    KnownPlugin("io.debezium:debezium-connector-jdbc", (_DEBEZIUM + "jdbc.JdbcSinkConnector",)),
    KnownPlugin(
        "org.mongodb.kafka:mongo-kafka-connect",
        ("com.mongodb.kafka.connect.MongoSinkConnector", "com.mongodb.kafka.connect.MongoSourceConnector"),
    ),
    KnownPlugin("org.apache.iceberg:iceberg-kafka-connect", ("org.apache.iceberg.connect.IcebergSinkConnector",)),
    KnownPlugin("com.snowflake:snowflake-kafka-connector", ("com.snowflake.kafka.connector.SnowflakeSinkConnector",)),
    KnownPlugin(
        "com.github.jcustenborder.kafka.connect:kafka-connect-spooldir",
        tuple(
            f"com.github.jcustenborder.kafka.connect.spooldir.SpoolDir{form}SourceConnector"
            for form in ("Csv", "Json", "LineDelimited", "SchemaLessJson", "BinaryFile")
        ),
    ),
    KnownPlugin(
        "io.aiven:s3-connector-for-apache-kafka", ("io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",)
    ),
    KnownPlugin(
        _CAMEL[:-1] + ":camel-aws-s3-sink-kafka-connector", (_CAMEL + "awss3sink.CamelAwss3sinkSinkConnector",)
    ),
    KnownPlugin(
        _CAMEL[:-1] + ":camel-aws-s3-source-kafka-connector", (_CAMEL + "awss3source.CamelAwss3sourceSourceConnector",)
    ),
    KnownPlugin(
        _CAMEL[:-1] + ":camel-timer-source-kafka-connector", (_CAMEL + "timersource.CamelTimersourceSourceConnector",)
    ),
    KnownPlugin(
        "confluentinc/kafka-connect-jdbc",
        (_CONFLUENT + "jdbc.JdbcSinkConnector", _CONFLUENT + "jdbc.JdbcSourceConnector"),
    ),
    KnownPlugin("confluentinc/kafka-connect-s3", (_CONFLUENT + "s3.S3SinkConnector",)),
    KnownPlugin("confluentinc/kafka-connect-s3-source", (_CONFLUENT + "s3.source.S3SourceConnector",)),
    KnownPlugin("confluentinc/kafka-connect-elasticsearch", (_CONFLUENT + "elasticsearch.ElasticsearchSinkConnector",)),
    KnownPlugin("confluentinc/kafka-connect-hdfs", (_CONFLUENT + "hdfs.HdfsSinkConnector",)),
    KnownPlugin("confluentinc/kafka-connect-gcs", (_CONFLUENT + "gcs.GcsSinkConnector",)),
    KnownPlugin(
        "confluentinc/kafka-connect-azure-blob-storage", (_CONFLUENT + "azure.blob.AzureBlobStorageSinkConnector",)
    ),
    KnownPlugin("confluentinc/kafka-connect-http", (_CONFLUENT + "http.HttpSinkConnector",)),
    KnownPlugin("confluentinc/kafka-connect-replicator", (_CONFLUENT + "replicator.ReplicatorSourceConnector",)),
    KnownPlugin("confluentinc/kafka-connect-datagen", ("io.confluent.kafka.connect.datagen.DatagenConnector",)),
    KnownPlugin("wepay/kafka-connect-bigquery", ("com.wepay.kafka.connect.bigquery.BigQuerySinkConnector",)),
    KnownPlugin("clickhouse/clickhouse-kafka-connect", ("com.clickhouse.kafka.connect.ClickHouseSinkConnector",)),
    KnownPlugin(
        "neo4j/kafka-connect-neo4j",
        ("streams.kafka.connect.sink.Neo4jSinkConnector", "org.neo4j.connectors.kafka.sink.Neo4jConnector"),
    ),
    KnownPlugin("splunk/kafka-connect-splunk", ("com.splunk.kafka.connect.SplunkSinkConnector",)),
    KnownPlugin(
        "streamthoughts/kafka-connect-file-pulse",
        ("io.streamthoughts.kafka.connect.filepulse.source.FilePulseSourceConnector",),
    ),
    KnownPlugin("redis/redis-kafka-connect", ("com.redis.kafka.connect.RedisSinkConnector",)),
    KnownPlugin(
        "https://github.com/Aiven-Open/jdbc-connector-for-apache-kafka/releases",
        ("io.aiven.connect.jdbc.JdbcSinkConnector", "io.aiven.connect.jdbc.JdbcSourceConnector"),
    ),
    KnownPlugin(
        "https://github.com/Aiven-Open/opensearch-connector-for-apache-kafka/releases",
        ("io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",),
    ),
    KnownPlugin(
        "https://github.com/Aiven-Open/http-connector-for-apache-kafka/releases",
        ("io.aiven.kafka.connect.http.HttpSinkConnector",),
    ),
    KnownPlugin(
        "https://github.com/lensesio/stream-reactor/releases",
        (
            "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
            "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector",
        ),
    ),
    KnownPlugin(
        "https://github.com/databricks/iceberg-kafka-connect/releases",
        ("io.tabular.iceberg.connect.IcebergSinkConnector",),
    ),
    KnownPlugin(
        "io.debezium:debezium-scripting",
        ("io.debezium.transforms.ContentBasedRouter", "io.debezium.transforms.Filter"),
    ),
    KnownPlugin(
        "confluentinc/connect-transforms",
        tuple(
            f"io.confluent.connect.transforms.{name}"
            for name in (
                *(f"{name}${part}" for name in ("Drop", "ExtractTopic", "Filter") for part in ("Key", "Value")),
                "MessageTimestampRouter",
                "TombstoneHandler",
            )
        ),
    ),
)
_BY_CLASS = {name: plugin for plugin in _PLUGINS for name in plugin.classes}


def plugin_of(class_name: str) -> KnownPlugin | None:
    """Return the plug-in that has a class, by its full name."""
    return _BY_CLASS.get(class_name)


def plugin_named(artifact: str) -> KnownPlugin | None:
    """Return the plug-in with this artifact, without group or owner; None if there is none."""
    return next((plugin for plugin in _PLUGINS if plugin.artifact == artifact), None)


def search(word: str) -> Iterator[tuple[str, KnownPlugin]]:
    """Yield the classes that have a word in their name or in that of their plug-in, in any case."""
    for name, plugin in _BY_CLASS.items():
        if word.casefold() in f"{name} {plugin.place}".casefold():
            yield name, plugin
