"""Finds out from configs and used topics what connectors read and write."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from fencepost.cluster.info import Lineage, LineageEnd
from fencepost.config.java_regex import SlowPatternError, compiled
from fencepost.config.reference import RawConfig
from fencepost.secret.redaction import HIDDEN
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.operation.connector.answer import masked
from fencepost.worker.plan import kind_of_config

_SOURCE_ALIAS, _TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"
# Of built-in connectors, then of others that are in wide use.
_PLACES = (
    "file", "input.path", "path", "url", "connection.url", "database.hostname", "connection.uri", "connection.host",
    "mongodb.connection.string", "s3.bucket.name", "aws.s3.bucket.name", "gcs.bucket.name", "topics.dir", "hosts",
    "http.api.url", "iceberg.tables", "iceberg.catalog.uri", "snowflake.url.name", "cassandra.contact.points",
)  # fmt: skip
_DATABASES = ("database.dbname", "database.names", "database.include.list")
_SELF_SAID = re.compile(r"[\w.+-]+:/|/|\.{1,2}/|jdbc:|mongodb")  # a URL or a path
_ROLE = re.compile(r"(Source|Sink)?(Connector)?$")
_WRITTEN = ("topic", "kafka.topic", "output.topic", "topic.name")


def lineage_of(snapshot: ClusterSnapshot, name: str, used: Sequence[str]) -> Lineage:
    """Return the lineage of a connector; `used` are the topics that it has used."""
    config = masked(snapshot.connectors[name])
    kind = kind_of_config(snapshot.connectors[name]) or "unknown"
    if _SOURCE_ALIAS in config:
        return Lineage(name, kind, *_of_mirror(config, used))
    if kind in ("source", "mirror"):
        return Lineage(name, kind, [_external(config)], _written(config, used))
    read = _read(config, used)
    if kind == "stream":
        names = {end.name for end in read}
        return Lineage(name, kind, read, _written(config, [topic for topic in used if topic not in names]))
    return Lineage(name, kind, read, [_external(config)] if kind == "sink" else [])


def _of_mirror(config: RawConfig, used: Sequence[str]) -> tuple[Sequence[LineageEnd], Sequence[LineageEnd]]:
    source = config[_SOURCE_ALIAS]
    patterns = [LineageEnd("pattern", each, source) for each in _listed(config.get("topics") or ".*")]
    target = config.get(_TARGET_ALIAS) if config.get("topics.regex") else None
    return patterns, [LineageEnd("topic", topic, target) for topic in sorted(used)]


def _read(config: RawConfig, used: Sequence[str]) -> Sequence[LineageEnd]:
    named = _listed(config.get("topics") or "")
    if named:
        return [LineageEnd("topic", topic) for topic in sorted(set(named))]
    pattern = config.get("topics.regex") or ""
    found = [topic for topic in sorted(used) if _matches(pattern, topic)]
    return [LineageEnd("topic", topic) for topic in found] or [LineageEnd("pattern", pattern)] * bool(pattern)


def _matches(pattern: str, topic: str) -> bool:
    try:
        return compiled(pattern).fullmatch(topic) is not None
    except (re.error, SlowPatternError):
        return True


def _written(config: RawConfig, used: Sequence[str]) -> Sequence[LineageEnd]:
    named = [config[key] for key in _WRITTEN if config.get(key)]
    return [LineageEnd("topic", str(topic)) for topic in sorted(used) or named[:1]]


def _external(config: RawConfig) -> LineageEnd:
    """Return the outside system: what the config says of its place, with its name where the place does not say it."""
    key = next((key for key in _PLACES if config.get(key) not in (None, "", HIDDEN)), None)
    name = _short(config.get("connector.class") or "")
    if key is None:
        return LineageEnd("external", name)
    place = _without_credentials(str(config[key]))
    if key == "database.hostname":
        port, database = config.get("database.port"), next(filter(None, map(config.get, _DATABASES)), None)
        place += (f":{port}" if port else "") + (f"/{database}" if database else "")
    return LineageEnd("external", place if _SELF_SAID.match(place) else f"{_system(name)} {place}")


def _system(name: str) -> str:
    """Return what a class connects to: Postgres of PostgresConnector."""
    return _ROLE.sub("", name) or name


def _without_credentials(place: str) -> str:
    prefix = "jdbc:" if place.startswith("jdbc:") else ""
    try:
        parts = urlsplit(place.removeprefix(prefix))
    except ValueError:
        return place.partition("@")[2] or place
    if not parts.scheme:
        return place
    return prefix + urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
