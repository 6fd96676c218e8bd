"""Iceberg's sink for Kafka Connect, and its tables in a directory: a catalog that takes no server."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import fastavro
import pyarrow.parquet as pq

from fencepost.embedded.ivy import pyspark_jars
from support.maven_plugin import plugin

ICEBERG = "1.12.0"
SETTINGS = {"offset.flush.interval.ms": "500"}
"""Of the worker. Iceberg's sink looks at its control topic when records are put, or it is time to put none."""
_DELETED = 2  # the status of an entry of a manifest


def iceberg(plugin_path: Path) -> None:
    """Put Iceberg's sink into a directory of `plugin.path`, with the Hadoop classes that come with PySpark."""
    hadoop = [jar for kind in ("api", "runtime") for jar in pyspark_jars().glob(f"hadoop-client-{kind}-*.jar")]
    assert len(hadoop) == 2, hadoop
    plugin("org.apache.iceberg", ("iceberg-kafka-connect", "iceberg-parquet"), ICEBERG, plugin_path, *hadoop)


def sink_config(topic: str, bootstrap: str, warehouse: Path, table: str) -> dict[str, str]:
    """Return the config of a sink that writes a topic of JSON into a table, which it makes.

    `earliest` is for the control topic: with its default, Iceberg's coordinator passes over what was written before it
    began, unless it has committed once.
    """
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": warehouse.as_uri(),
        "iceberg.tables": table,
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.control.topic": f"control-{topic}",
        "iceberg.control.commit.interval-ms": "1000",
        "iceberg.kafka.bootstrap.servers": bootstrap,
        "iceberg.kafka.auto.offset.reset": "earliest",
    }


def rows(warehouse: Path, table: str) -> list[Mapping[str, Any]]:
    """Return the rows of a table's current snapshot; none if there is no table or no snapshot yet."""
    return [
        row for file in _data_files(warehouse.joinpath(*table.split("."))) for row in pq.read_table(file).to_pylist()
    ]


def _data_files(table: Path) -> Iterator[Path]:
    newest = max(table.glob("metadata/v*.metadata.json"), key=_version, default=None)
    if newest is None:
        return
    metadata = json.loads(newest.read_text())
    current = metadata.get("current-snapshot-id")
    for snapshot in metadata.get("snapshots", ()):
        if snapshot["snapshot-id"] == current:
            for manifest in _avro(snapshot["manifest-list"]):
                entries = _avro(manifest["manifest_path"])
                yield from (_path(each["data_file"]["file_path"]) for each in entries if each["status"] != _DELETED)


def _version(metadata: Path) -> int:
    return int(metadata.name.split(".")[0].removeprefix("v"))


def _avro(url: str) -> list[Any]:
    with _path(url).open("rb") as file:
        return list(fastavro.reader(file))


def _path(url: str) -> Path:
    return Path(os.path.abspath(urlparse(url).path))
