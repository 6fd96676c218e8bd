"""Replacements for well-known Java plug-ins that do not exist here."""

import re
from typing import NamedTuple

from fencepost.plugin.kind import PluginKind


class Offer(NamedTuple):
    """A kind of plug-in, a pattern of class names, their common name, and the replacement."""

    kind: PluginKind
    pattern: re.Pattern[str]
    product: str
    instead: str


_SPARK_READS = "a DataFrameConnector of a few lines, whose read() returns session.read"
_FILES_SINK = "the connector FilesSink, whose path may be "
_PUT = "a SinkConnector of your own, whose put() writes batches"
_SPARK_WRITES = "a DataFrameSink of your own, whose write() has Spark write an epoch"

_JAVA = r"^(com|io|org|net)\..+"

_OFFERS = tuple(
    Offer(PluginKind.CONNECTOR, re.compile(pattern, re.IGNORECASE), product, instead)
    for pattern, product, instead in (
        # Sinks first: a source is no replacement for a sink of the same store.
        (r".*(\.s3\.|s3sink|awss3).*sink.*", "an S3 sink", _FILES_SINK + "an s3a:// path"),
        (r".*(\.gcs\.|gcssink|azure|adls|blob).*sink.*", "an object store sink", _FILES_SINK + "the store's"),
        (r".*hdfs.*sink.*", "an HDFS sink", _FILES_SINK + "an hdfs:// path"),
        (r".*jdbc.*sink.*", "a JDBC sink", _PUT + " to the database, with the offsets where it is to be exact"),
        (r".*(iceberg|hudi|delta|bigquery|snowflake).*sink.*", "a sink for tables", _SPARK_WRITES),
        (r".*(sink)(connector)?$", "a sink", _PUT),
        (r"^io\.debezium\..*", "Debezium", "a SourceConnector of your own over the database's change stream"),
        (r".*jdbc.*", "the JDBC connector", _SPARK_READS + '.format("jdbc")'),
        (r".*spooldir.*|.*FilePulse.*", "the spool directory connector", "the connector SpoolDirectory"),
        (r".*\.s3\..*|.*S3S(ource|ink).*", "the S3 connector", _SPARK_READS + " of an s3a:// path"),
        (r".*\.gcs\..*|.*azure.*blob.*", "the object store connector", _SPARK_READS + " of the store's path"),
        (r".*hdfs.*", "the HDFS connector", _SPARK_READS + " of an hdfs:// path"),
        (r".*mongo.*", "the MongoDB connector", "a SourceConnector of your own over the change stream"),
        (r".*datagen.*", "Confluent's Datagen", "the connector Datagen"),
    )
) + tuple(
    Offer(kind, re.compile(pattern, re.IGNORECASE), product, instead)
    for kind, pattern, product, instead in (
        (
            PluginKind.CONVERTER,
            r".*(avro|protobuf|jsonschema).*",
            "a schema registry converter",
            "JsonConverter with schemas.enable=true",
        ),
        (PluginKind.CONVERTER, _JAVA, "a converter", "a Converter of your own"),
        (PluginKind.HEADER_CONVERTER, _JAVA, "a header converter", "a HeaderConverter of your own"),
        (PluginKind.TRANSFORM, _JAVA, "a transform", "a Transform of your own, a method of a few lines"),
        (PluginKind.PREDICATE, _JAVA, "a predicate", "a Predicate of your own, a method of a few lines"),
    )
)


def offer_for(kind: PluginKind, name: str) -> str | None:
    """Return a sentence that names the replacement of a well-known class of that kind; else None."""
    for offer in _OFFERS:
        if offer.kind is kind and offer.pattern.match(name):
            return f"{name} is {offer.product}, a Java plug-in that does not run here; use {offer.instead}"
    return None
