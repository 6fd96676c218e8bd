"""What to do about well-known Java plug-ins that are not in `plugin.path`, or that do not run here.

A class is looked up in the table of its kind, a connector in that of its direction: a source is no replacement for a
sink of the same store. The first pattern that fits decides. All but the last also fit class names without a package.
"""

import re
from typing import NamedTuple

from fencepost.plugin.kind import PluginKind

_OF_JAVA = "a Java plug-in: install it in plugin.path ({command}) and restart the worker, or"
_INSTALL = "`fencepost plugin install`"
_IN_A_JAVA_PACKAGE = re.compile(r"(com|io|org|net|dev|streams)\.([\w-]+\.)+[A-Z]")
_SINK = re.compile(r"sink|\.writer\.", re.IGNORECASE)


class _Offer(NamedTuple):
    """A pattern of class names, what they have in common, and the replacement."""

    pattern: str
    product: str
    instead: str


_FILES = "the connector FilesSink, whose path may be "
_SPOOL = "the connector SpoolDirectorySource, whose input.path may be "
_SPARK_READS = "a DataFrameConnector of a few lines, whose read() returns session.read"
_SPARK_WRITES = "a DataFrameSink of your own, whose write() has Spark write an epoch"
_PUT = "a SinkConnector of your own, whose put() writes batches"
_POLL = "a SourceConnector of your own, whose poll() returns records"
_CCOMPAT = ", with a registry that has Confluent's API"
_CHANGES = "a SourceConnector of your own over the database's change stream"

_SINKS = (
    _Offer(r"mirror|replicator", "a sink for another cluster", "the connector MirrorSink, or `fencepost mirror`"),
    _Offer(r"iceberg|hudi|hoodie|delta|paimon", "a sink for a table format", _SPARK_WRITES),
    _Offer(
        r"bigquery|snowflake|redshift|databricks|synapse|singlestore|doris|starrocks|clickhouse|kusto|vertica|exasol",
        "a sink for a data warehouse", _SPARK_WRITES + ", or " + _PUT,
    ),
    _Offer(r"hdfs|hive", "an HDFS sink", _FILES + "an hdfs:// path"),
    _Offer(r"(?<![a-z])s3(?![a-z])|s3sink|aws.?s3|minio", "an S3 sink", _FILES + "an s3a:// path"),
    _Offer(r"gcs|(google|gcp).?storage", "a sink for Google Cloud Storage", _FILES + "a gs:// path"),
    _Offer(r"blob|adls|data.?lake|azure.?storage(?!.?queue)", "a sink for Azure Storage", _FILES + "an abfss:// path"),
    _Offer(r"(?<![a-z])s?ftp|camelfile|filesink|\.file\.", "a sink for files", _FILES + "a directory"),
    _Offer(
        r"jdbc|(?<![a-z])sql|postgres|mysql|mariadb|oracle|yugabyte",
        "a sink for databases", "the connector PostgresSink, or elsewhere " + _PUT + " to the database",
    ),
    _Offer("", "a sink", _PUT),
)  # fmt: skip
_SOURCES = (
    _Offer(
        r"mirror|replicator", "a source for another cluster", "the connector MirrorSource, or `fencepost mirror`"
    ),
    _Offer(r"datagen|voluble|datafaker", "a source of made-up records", "the connector Datagen"),
    _Offer(
        r"spooldir|filepulse|(?<![a-z])s?ftps?(?![a-z])|sftp|file.?chunk|camelfile|\.fs\.",
        "a source for files", _SPOOL + "a directory that has them",
    ),
    _Offer(r"hdfs", "an HDFS source", _SPOOL + "an hdfs:// path"),
    _Offer(r"(?<![a-z])s3(?![a-z])|s3source|aws.?s3|minio", "an S3 source", _SPOOL + "an s3a:// path"),
    _Offer(r"gcs|(google|gcp).?storage", "a source for Google Cloud Storage", _SPOOL + "a gs:// path"),
    _Offer(
        r"blob|adls|data.?lake|azure.?storage(?!.?queue)", "a source for Azure Storage", _SPOOL + "an abfss:// path"
    ),
    _Offer(r"debezium.*postgres", "a source for the changes of Postgres", "the connector PostgresSource"),
    _Offer(r"debezium|cdc|golden.?gate|maxwell|yugabyte", "a source for the changes of a database", _CHANGES),
    _Offer(r"mongo", "a MongoDB source", _CHANGES),
    _Offer(
        r"jdbc|(?<![a-z])sql|postgres|mysql|mariadb|oracle|bigquery|snowflake|redshift",
        "a source for tables of a database", "the connector JdbcSource",
    ),
    _Offer(r"iceberg|hudi|hoodie|delta", "a source for a table format", _SPARK_READS + " of its table"),
    _Offer("", "a connector", _POLL),
)  # fmt: skip
_TRANSFORMS = (
    _Offer(r"tombstonehandler|tombstonefilter", "a transform", "Filter with the predicate RecordIsTombstone"),
    _Offer(
        r"bylogicaltablerouter|topicregexrouter|patternrename$|changetopic",
        "a transform that changes topics", "RegexRouter",
    ),
    _Offer(
        r"messagetimestamprouter", "a transform that changes topics",
        "TimestampRouter, which takes the record's timestamp, or a Transform of your own",
    ),
    _Offer(
        r"contentbasedrouter|extracttopic|\w*router$", "a transform that changes topics",
        "a Transform of your own, which returns the record with another topic",
    ),
    _Offer(
        r"filter\w*(\$|$)|filterbyfield", "a transform that leaves records out",
        "Filter with a Predicate of your own, a method of a few lines",
    ),
    _Offer(r"(insert|add)\w*header", "a transform that adds headers", "InsertHeader, or a Transform of your own"),
    _Offer(r"fieldstoheader", "a transform of headers", "HeaderFrom, or a Transform of your own"),
    _Offer(r"time(stamp|zone)convert", "a transform of times", "TimestampConverter, or a Transform of your own"),
    _Offer(r"flatten", "a transform", "Flatten, or a Transform of your own"),
    _Offer(r"", "a transform", "a Transform of your own, a method of a few lines"),
)  # fmt: skip
_CONVERTERS = (
    _Offer(r"protobuf", "a schema registry converter", "ProtobufConverter" + _CCOMPAT),
    _Offer(r"jsonschema|extjson", "a schema registry converter", "JsonSchemaConverter" + _CCOMPAT),
    _Offer(r"avro|glue", "a schema registry converter", "AvroConverter" + _CCOMPAT),
    _Offer(r"json", "a converter", "JsonConverter"),
    _Offer(r"bytebuffer|binarydata|bytearray", "a converter of bytes", "ByteArrayConverter"),
    _Offer(r"string", "a converter of text", "StringConverter"),
    _Offer(r"", "a converter", "a Converter of your own"),
)
_TABLES = {
    PluginKind.TRANSFORM: _TRANSFORMS,
    PluginKind.PREDICATE: (_Offer(r"", "a predicate", "a Predicate of your own, a method of a few lines"),),
    PluginKind.CONVERTER: _CONVERTERS,
    PluginKind.HEADER_CONVERTER: (_Offer(r"", "a header converter", "a HeaderConverter of your own"),),
}


def offer_for(kind: PluginKind, name: str) -> str | None:
    """Return a sentence that names the replacement of a Java class of that kind; None if the name is not one's."""
    is_java = _IN_A_JAVA_PACKAGE.match(name) is not None
    if "." in name and not is_java:
        return None
    offers = (one for one in _table(kind, name) if one.pattern or is_java)
    found = next((one for one in offers if re.search(one.pattern, name, re.IGNORECASE)), None)
    if found is None:
        return None
    from fencepost.builtin.java.install.known import plugin_of  # nothing of Java is loaded before it is asked for

    known = plugin_of(name)
    how = _OF_JAVA.format(command=_INSTALL if known is None else known.command)
    return f"{name} is {found.product}, {how} use {found.instead}"


def _table(kind: PluginKind, name: str) -> tuple[_Offer, ...]:
    if kind is PluginKind.CONNECTOR:
        return _SINKS if _SINK.search(name) is not None else _SOURCES
    return _TABLES.get(kind, ())
