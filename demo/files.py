"""The second half: the topic of flights as Parquet files, and what a reader of the directory finds in them."""

import glob
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson
import pyarrow.parquet as pq

from demo.source import Source
from fencepost.testing.verdict import Observation

_ADDED = "hours"


class ParquetFiles:
    """A files sink of a source's topic, and its directory as any reader sees it."""

    def __init__(self, source: Source, directory: Path) -> None:
        self.source = source
        self.name = f"{source.name}-files"
        self._directory = directory
        self._rows: dict[str, int] = {}

    @property
    def config(self) -> Mapping[str, str]:
        """Return the config of the connector."""
        return {
            "connector.class": "fencepost.connector.files_sink.FilesSink",
            "topics": self.source.topic,
            "path": str(self._directory),
            "format": "parquet",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "value.schema": self.source.config["input.schema"],
            "transforms.sql": f"SELECT value.*, value.air_time / 60 AS {_ADDED} FROM records",
            "epoch.interval.ms": "4000",
            "epoch.rows.max": "100000",
            # A member that was killed is missed after this long: Kafka's shortest.
            "consumer.override.session.timeout.ms": "6000",
        }

    def count(self) -> int:
        """Return how many rows a reader finds now."""
        for file in self._files():
            if file not in self._rows:
                self._rows[file] = pq.ParquetFile(file).metadata.num_rows
        return sum(self._rows.values())

    def observations(self) -> Iterator[Observation]:
        """Return all rows, file by file in the order of their names, as the records that they come from."""
        for file in self._files():
            for batch in pq.ParquetFile(file).iter_batches():
                for row in batch.to_pylist():
                    del row[_ADDED]
                    yield Observation(self.source.topic, 0, None, orjson.dumps(row))

    def _files(self) -> list[str]:
        return sorted(glob.glob(f"{self._directory}/*.parquet"))
