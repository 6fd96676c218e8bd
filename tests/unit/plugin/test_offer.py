"""The advice for classes of others: names from public lists of connectors, and what is said of each."""

import pytest

from fencepost.builtin.java.install.known import plugin_of
from fencepost.plugin import PluginKind
from fencepost.plugin.kind import BUILT_IN
from fencepost.plugin.mistake import offer_for

FILES_S3 = "the connector FilesSink, whose path may be an s3a:// path"
FILES_GCS = "the connector FilesSink, whose path may be a gs:// path"
FILES_AZURE = "the connector FilesSink, whose path may be an abfss:// path"
FILES_HDFS = "the connector FilesSink, whose path may be an hdfs:// path"
SPOOL = "the connector SpoolDirectorySource, whose input.path may be "
PUT = "a SinkConnector of your own, whose put() writes batches"
PUT_TO_DATABASE = f"the connector PostgresSink, or elsewhere {PUT} to the database"
EPOCHS = "a DataFrameSink of your own, whose write() has Spark write an epoch"
EPOCHS_OR_PUT = f"{EPOCHS}, or {PUT}"
JDBC = "the connector JdbcSource"
POLL = "a SourceConnector of your own, whose poll() returns records"
CHANGES = "a SourceConnector of your own over the database's change stream"
MIRROR = "the connector MirrorSource, or `fencepost mirror`"

SINKS = {
    # Confluent
    "io.confluent.connect.s3.S3SinkConnector": FILES_S3,
    "io.confluent.connect.gcs.GcsSinkConnector": FILES_GCS,
    "io.confluent.connect.azure.blob.AzureBlobStorageSinkConnector": FILES_AZURE,
    "io.confluent.connect.azure.datalake.gen2.AzureDataLakeGen2SinkConnector": FILES_AZURE,
    "io.confluent.connect.hdfs.HdfsSinkConnector": FILES_HDFS,
    "io.confluent.connect.hdfs3.Hdfs3SinkConnector": FILES_HDFS,
    "io.confluent.connect.jdbc.JdbcSinkConnector": PUT_TO_DATABASE,
    "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector": PUT,
    "io.confluent.connect.http.HttpSinkConnector": PUT,
    "io.confluent.connect.aws.redshift.RedshiftSinkConnector": EPOCHS_OR_PUT,
    "io.confluent.connect.azure.eventhubs.EventHubsSinkConnector": PUT,
    # Aiven
    "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector": FILES_S3,
    "io.aiven.kafka.connect.gcs.GcsSinkConnector": FILES_GCS,
    "io.aiven.kafka.connect.azure.sink.AzureBlobSinkConnector": FILES_AZURE,
    "io.aiven.kafka.connect.http.HttpSinkConnector": PUT,
    "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector": PUT,
    "io.aiven.connect.jdbc.JdbcSinkConnector": PUT_TO_DATABASE,
    # Lenses
    "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector": FILES_S3,
    "io.lenses.streamreactor.connect.gcp.storage.sink.GCPStorageSinkConnector": FILES_GCS,
    "io.lenses.streamreactor.connect.azure.datalake.sink.DatalakeSinkConnector": FILES_AZURE,
    "io.lenses.streamreactor.connect.redis.sink.RedisSinkConnector": PUT,
    "io.lenses.streamreactor.connect.cassandra.sink.CassandraSinkConnector": PUT,
    # Camel
    "org.apache.camel.kafkaconnector.awss3sink.CamelAwss3sinkSinkConnector": FILES_S3,
    "org.apache.camel.kafkaconnector.azurestorageblobsink.CamelAzurestorageblobsinkSinkConnector": FILES_AZURE,
    "org.apache.camel.kafkaconnector.azurestoragequeuesink.CamelAzurestoragequeuesinkSinkConnector": PUT,
    "org.apache.camel.kafkaconnector.hdfs.CamelHdfsSinkConnector": FILES_HDFS,
    "org.apache.camel.kafkaconnector.postgresqlsink.CamelPostgresqlsinkSinkConnector": PUT_TO_DATABASE,
    "org.apache.camel.kafkaconnector.ftpsink.CamelFtpsinkSinkConnector": (
        "the connector FilesSink, whose path may be a directory"
    ),
    # Debezium, and vendors of stores
    "io.debezium.connector.jdbc.JdbcSinkConnector": PUT_TO_DATABASE,
    "io.debezium.connector.mongodb.MongoDbSinkConnector": PUT,
    "com.mongodb.kafka.connect.MongoSinkConnector": PUT,
    "com.snowflake.kafka.connector.SnowflakeSinkConnector": EPOCHS_OR_PUT,
    "com.wepay.kafka.connect.bigquery.BigQuerySinkConnector": EPOCHS_OR_PUT,
    "com.clickhouse.kafka.connect.ClickHouseSinkConnector": EPOCHS_OR_PUT,
    "org.apache.iceberg.connect.IcebergSinkConnector": EPOCHS,
    "io.tabular.iceberg.connect.IcebergSinkConnector": EPOCHS,
    "org.apache.hudi.connect.HoodieSinkConnector": EPOCHS,
    "org.neo4j.connectors.kafka.sink.Neo4jConnector": PUT,
    "streams.kafka.connect.sink.Neo4jSinkConnector": PUT,
    "com.splunk.kafka.connect.SplunkSinkConnector": PUT,
    "com.datadoghq.connect.logs.DatadogLogsSinkConnector": PUT,
    "com.couchbase.connect.kafka.CouchbaseSinkConnector": PUT,
    # without a package, as configs may have them
    "S3SinkConnector": FILES_S3,
    "S3Sink": FILES_S3,
    "JdbcSink": PUT_TO_DATABASE,
}
SOURCES = {
    # Confluent
    "io.confluent.connect.jdbc.JdbcSourceConnector": JDBC,
    "io.confluent.connect.s3.source.S3SourceConnector": SPOOL + "an s3a:// path",
    "io.confluent.connect.gcs.GcsSourceConnector": SPOOL + "a gs:// path",
    "io.confluent.connect.azure.blob.storage.AzureBlobStorageSourceConnector": SPOOL + "an abfss:// path",
    "io.confluent.connect.hdfs3.Hdfs3SourceConnector": SPOOL + "an hdfs:// path",
    "io.confluent.connect.sftp.SftpCsvSourceConnector": SPOOL + "a directory that has them",
    "io.confluent.connect.replicator.ReplicatorSourceConnector": MIRROR,
    "io.confluent.kafka.connect.datagen.DatagenConnector": "the connector Datagen",
    "io.confluent.connect.oracle.cdc.OracleCdcSourceConnector": CHANGES,
    "io.confluent.connect.activemq.ActiveMQSourceConnector": POLL,
    "io.confluent.connect.sqs.source.SqsSourceConnector": POLL,
    "io.confluent.connect.mqtt.MqttSourceConnector": POLL,
    # Aiven, Lenses, Camel
    "io.aiven.connect.jdbc.JdbcSourceConnector": JDBC,
    "io.aiven.kafka.connect.s3.source.S3SourceConnector": SPOOL + "an s3a:// path",
    "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector": SPOOL + "an s3a:// path",
    "io.lenses.streamreactor.connect.mqtt.source.MqttSourceConnector": POLL,
    "org.apache.camel.kafkaconnector.awss3source.CamelAwss3sourceSourceConnector": SPOOL + "an s3a:// path",
    "org.apache.camel.kafkaconnector.timersource.CamelTimersourceSourceConnector": POLL,
    "org.apache.camel.kafkaconnector.postgresqlsource.CamelPostgresqlsourceSourceConnector": JDBC,
    # Debezium
    "io.debezium.connector.postgresql.PostgresConnector": "the connector PostgresSource",
    "io.debezium.connector.mysql.MySqlConnector": CHANGES,
    "io.debezium.connector.mongodb.MongoDbConnector": CHANGES,
    "io.debezium.connector.sqlserver.SqlServerConnector": CHANGES,
    "io.debezium.connector.oracle.OracleConnector": CHANGES,
    # others
    "com.mongodb.kafka.connect.MongoSourceConnector": CHANGES,
    "com.github.jcustenborder.kafka.connect.spooldir.SpoolDirCsvSourceConnector": SPOOL + "a directory that has them",
    "io.streamthoughts.kafka.connect.filepulse.source.FilePulseSourceConnector": SPOOL + "a directory that has them",
    "com.github.mmolimar.kafka.connect.fs.FsSourceConnector": SPOOL + "a directory that has them",
    "com.github.castorm.kafka.connect.http.HttpSourceConnector": POLL,
    "com.ibm.eventstreams.connect.mqsource.MQSourceConnector": POLL,
    "com.google.pubsub.kafka.source.CloudPubSubSourceConnector": POLL,
    "io.mdrogalis.voluble.VolubleSourceConnector": "the connector Datagen",
    "JdbcSourceConnector": JDBC,
}
TRANSFORMS = {
    "io.confluent.connect.transforms.Drop$Value": "a Transform of your own, a method of a few lines",
    "io.confluent.connect.transforms.TombstoneHandler": "Filter with the predicate RecordIsTombstone",
    "io.aiven.kafka.connect.transforms.TombstoneHandler": "Filter with the predicate RecordIsTombstone",
    "io.confluent.connect.transforms.Filter$Value": "Filter with a Predicate of your own, a method of a few lines",
    "io.debezium.transforms.Filter": "Filter with a Predicate of your own, a method of a few lines",
    "io.aiven.kafka.connect.transforms.FilterByFieldValue$Value": (
        "Filter with a Predicate of your own, a method of a few lines"
    ),
    "io.confluent.connect.transforms.ExtractTopic$Value": (
        "a Transform of your own, which returns the record with another topic"
    ),
    "io.confluent.connect.transforms.MessageTimestampRouter": (
        "TimestampRouter, which takes the record's timestamp, or a Transform of your own"
    ),
    "io.debezium.transforms.ByLogicalTableRouter": "RegexRouter",
    "io.debezium.transforms.ContentBasedRouter": "a Transform of your own, which returns the record with another topic",
    "io.debezium.transforms.ExtractChangedRecordState": "a Transform of your own, a method of a few lines",
    "io.lenses.connect.smt.header.InsertRecordTimestampHeaders": "InsertHeader, or a Transform of your own",
    "com.github.jcustenborder.kafka.connect.transform.common.ChangeCase$Value": (
        "a Transform of your own, a method of a few lines"
    ),
    "com.redhat.insights.expandjsonsmt.ExpandJSON$Value": "a Transform of your own, a method of a few lines",
}


def install(name: str) -> str:
    known = plugin_of(name)
    command = "`fencepost plugin install`" if known is None else known.command
    return f", a Java plug-in: install it in plugin.path ({command}) and restart the worker, or use "


@pytest.mark.parametrize(("name", "instead"), SINKS.items())
def test_offer_for_a_java_sink_names_a_sink(name: str, instead: str) -> None:
    offer = offer_for(PluginKind.CONNECTOR, name)
    assert offer is not None
    assert offer.endswith(f"{install(name)}{instead}")


@pytest.mark.parametrize(("name", "instead"), SOURCES.items())
def test_offer_for_a_java_source_names_a_source(name: str, instead: str) -> None:
    offer = offer_for(PluginKind.CONNECTOR, name)
    assert offer is not None
    assert offer.endswith(f"{install(name)}{instead}")


@pytest.mark.parametrize(("name", "instead"), TRANSFORMS.items())
def test_offer_for_a_java_transform_names_a_built_in_or_a_recipe(name: str, instead: str) -> None:
    offer = offer_for(PluginKind.TRANSFORM, name)
    assert offer is not None
    assert offer.endswith(f"{install(name)}{instead}")


@pytest.mark.parametrize("kind", [PluginKind.PREDICATE, PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER])
def test_offer_for_an_unknown_java_class_matches_its_kind(kind: PluginKind) -> None:
    offer = offer_for(kind, "com.example.Thing")
    assert offer is not None
    assert offer.endswith(
        f"{install('')}a {kind.base.__name__} of your own" + ", a method of a few lines" * (kind == "predicate")
    )


def test_every_offered_connector_exists() -> None:
    """Each class that a text names as `the connector X`, or names first, can be used in a config."""
    offers = [offer_for(PluginKind.CONNECTOR, name) or "" for name in (*SINKS, *SOURCES)]
    named = {text.partition("the connector ")[2].partition(",")[0] for text in offers if "the connector " in text}
    short = {name.rpartition(".")[2] for name in BUILT_IN[PluginKind.CONNECTOR]}
    assert named
    assert named <= {*short, *(name.removesuffix("Connector") for name in short)}


@pytest.mark.parametrize(
    "name", ["Nonsense", "prices.PriceSource", "my_s3.S3Sink", "fencepost.builtin.connector.jdbc.Jdbc"]
)
def test_name_that_is_no_java_class_gets_no_offer(name: str) -> None:
    assert offer_for(PluginKind.CONNECTOR, name) is None
