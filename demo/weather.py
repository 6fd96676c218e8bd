"""The weather: a table of Postgres, to a topic, to a query with state over that, and its results to another table."""

import csv
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import psycopg
from psycopg.rows import dict_row

from demo.source import ONE_PARTITION, Source
from fencepost.embedded.postgres import EmbeddedPostgres
from fencepost.testing.verdict import Observation

_TOPIC = "nyc.public.weather"
_RESULT = ("origin", "day", "readings", "warmest")
_SCRIPT = """
CREATE TABLE weather (id INT PRIMARY KEY, origin TEXT, at TIMESTAMPTZ, temp FLOAT8);
CREATE TABLE days (number SERIAL, origin TEXT, day INT, readings INT, warmest FLOAT8);
"""
_SQL = f"""
SELECT origin, unix_seconds(window.start) DIV 86400 AS day, count(*) AS readings, max(temp) AS warmest
FROM (
  SELECT row.* FROM (
    SELECT from_json(value, 'after STRUCT<origin: STRING, at: TIMESTAMP, temp: DOUBLE>').after AS row FROM `{_TOPIC}`
  )
) WATERMARK at DELAY OF INTERVAL 0 SECONDS
GROUP BY window(at, '1 day'), origin
"""
_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_INSERT = b"INSERT INTO weather VALUES (%(id)s, %(origin)s, %(at)s, %(temp)s)"
_DAY_S = 86400


class Weather:
    """The readings of three airports, hour by hour, and what comes of them. A reading is a row of the table.

    `server` is to be started; then the table is empty.
    """

    def __init__(self, data: Path, directory: Path) -> None:
        self._directory = directory
        with (data / "weather.csv").open(encoding="utf-8", newline="") as opened:
            found = sorted(csv.DictReader(opened), key=lambda row: row["time_hour"])
        self.readings = [
            {"id": number, "origin": row["origin"], "at": row["time_hour"], "temp": _number(row["temp"])}
            for number, row in enumerate(found, 1)
        ]
        script = directory / "weather.sql"
        script.write_text(_SCRIPT)
        self.server = EmbeddedPostgres(script=script)

    def table(self) -> Source:
        """Return the connector that reads the table."""
        source = Source(
            "weather",
            {
                "connector.class": "PostgresSource",
                "database.hostname": "127.0.0.1",
                "database.port": str(self.server.port),
                "database.user": "postgres",
                "database.dbname": "postgres",
                "plugin.name": "pgoutput",
                "topic.prefix": "nyc",
                "table.include.list": "public\\.weather",
                "publication.autocreate.mode": "filtered",
                **_JSON,
                **ONE_PARTITION,
            },
            _TOPIC,
            content_of=_reading,
        )
        source.add("weather", [orjson.dumps(reading) for reading in self.readings])
        return source

    def query(self) -> Source:
        """Return a query that keeps state: a row for each airport and day, once the day is over."""
        query = Source(
            "days",
            {
                "connector.class": "SqlStream",
                "topics": _TOPIC,
                "sql": _SQL,
                "output.topic": "days",
                "checkpoint.location": str(self._directory / "days-checkpoint"),
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                **{f"output.{key}": value for key, value in _JSON.items()},
            },
            "days",
            content_of=_result,
        )
        for (origin, day), temps in self._days().items():  # in no order: each result is a partition of its own
            row = (origin, day, len(temps), max((each for each in temps if each is not None), default=None))
            query.add(f"{origin} {day}", [orjson.dumps(dict(zip(_RESULT, row, strict=True)))])
        return query

    def _days(self) -> Mapping[tuple[str, int], list[float | None]]:
        """Return the temperatures by airport and day, without the last day: it is never over."""
        found: dict[tuple[str, int], list[float | None]] = {}
        for row in self.readings:
            day = int(datetime.fromisoformat(row["at"]).timestamp()) // _DAY_S
            found.setdefault((row["origin"], day), []).append(row["temp"])
        last = max(day for _, day in found)
        return {key: temps for key, temps in found.items() if key[1] < last}


class GrowingTable:
    """The table of the weather, to which readings are added. Half of them are there at the start."""

    def __init__(self, weather: Weather) -> None:
        self._readings = weather.readings
        self._added = 0
        self._connection = psycopg.connect(weather.server.url, autocommit=True)

    def grow_to(self, share: float) -> None:
        until = int(len(self._readings) * (1 + share) / 2)
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(_INSERT, self._readings[self._added : until])
        self._added = until

    def close(self) -> None:
        self._connection.close()


class DaysTable:
    """The results of the query in another table, to which a Postgres sink adds a row for each."""

    def __init__(self, query: Source, server: EmbeddedPostgres) -> None:
        self.source = query
        self.name = "days-table"
        self._server = server

    @property
    def config(self) -> Mapping[str, str]:
        """Return the config of the connector."""
        return {
            "connector.class": "PostgresSink",
            "topics": self.source.topic,
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self._server.port}/postgres",
            "connection.user": "postgres",
            # A member that was killed is missed after this long: Kafka's shortest.
            "consumer.override.session.timeout.ms": "6000",
            **_JSON,
        }

    def count(self) -> int:
        """Return how many rows a client finds now."""
        return len(self._rows())

    def observations(self) -> Iterator[Observation]:
        """Return all rows, as the records that they come from."""
        for row in self._rows():
            yield Observation(self.source.topic, 0, None, orjson.dumps(row))

    def _rows(self) -> list[dict[str, Any]]:
        with psycopg.connect(self._server.url, row_factory=dict_row) as connection:
            return connection.execute(f"SELECT {', '.join(_RESULT)} FROM days ORDER BY number".encode()).fetchall()


def _number(text: str) -> float | None:
    return None if text == "NA" else float(text)


def _reading(record: bytes) -> bytes:
    """The row after a change, with the time as the input has it."""
    row = orjson.loads(record)["after"]
    return orjson.dumps({**row, "at": row["at"].replace(".000000Z", "Z")})


def _result(record: bytes) -> bytes:
    """The whole record; JSON leaves out what is null."""
    row = orjson.loads(record)
    return orjson.dumps({name: row.get(name) for name in _RESULT})
