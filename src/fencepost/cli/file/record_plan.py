"""`fencepost plan`: what a connector would do with a few records, and which rights are missing. Nothing is written."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.api import (
    ConnectError,
    ConnectRecord,
    Converter,
    FatalError,
    Header,
    RecordError,
    Schema,
    SinkRecord,
    SourceConnector,
    SourceRecord,
)
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.registry.converter import RegistryConverter
from fencepost.builtin.transform.chain import Chain, Find
from fencepost.cli.client import DEV, client_properties, read_worker_file
from fencepost.cli.cluster.acls import connector_rights, read_connector
from fencepost.cli.cluster.rights import Acl, Need, Resource
from fencepost.cli.file.validation import plugins_of
from fencepost.cli.output import counted
from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.topic_records import RecordQuery
from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig
from fencepost.config.reference import given_values, names_in
from fencepost.config.worker import WorkerConfig
from fencepost.hook.hosted_task import KnowsSettings
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.kafka.setting.client_settings import admin_conf, range_conf
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.secret.known import hide
from fencepost.task.conversion.plugins import ChainConfig, converter_of
from fencepost.telemetry.plain_line import printable
from fencepost.testing.source_run import SourceRun
from fencepost.worker.operation.connector.topic_records import read_page
from fencepost.worker.plan import ConnectorPlan, is_mirror, looked_up
from fencepost.worker.validation.validation import validate_connector

_MOST = 400


@dataclass(frozen=True)
class Seen:
    """A record before and after; `written` is what a source's converters make of it. `fault` says why it would fail.

    `unwritten` says why the converters were not asked.
    """

    place: str
    before: ConnectRecord | None = None
    after: ConnectRecord | None = None
    written: tuple[bytes | None, bytes | None] | None = None
    fault: str = ""
    unwritten: str = ""

    @property
    def is_filtered(self) -> bool:
        return self.after is None and not self.fault

    @property
    def topics(self) -> set[str]:
        return {one.topic for one in (self.after or self.before,) if one is not None}

    def lines(self, number: int) -> Iterator[str]:
        """Yield what people read."""
        yield f"{number}  {self.place}"
        if self.before is not None:
            yield from _shown("before", self.before)
        if self.fault:
            yield f"  fails    {self.fault}"
        elif self.after is None:
            yield "  after    (filtered)"
        else:
            yield from _shown("after", self.after)
        if self.written is not None:
            key, value = map(_bytes, self.written)
            yield f"  written  key {key}  value {value}"
        elif self.unwritten:
            yield f"  written  (not shown: {self.unwritten})"


class Pipeline:
    """Transforms and converters of one connector, in this process."""

    def __init__(self, properties: Mapping[str, str], find: Find) -> None:
        chain = ChainConfig(properties, find)
        self._chain = Chain.from_config(properties, find)
        self._key, self._value = (converter_of(chain, f"{role}.converter") for role in ("key", "value"))
        self._header = converter_of(chain, "header.converter", kind="header_converter")

    def of_source(self, record: SourceRecord) -> Seen:
        """Return what would be sent for a record that a source has polled."""
        place = f"{dict(record.source_partition)} at {record.source_offset}"
        try:
            after = self._chain.apply(record)
            if after is None:
                return Seen(place, record)
            if registering := _registering(key=self._key, value=self._value):
                return Seen(place, record, after, unwritten=registering)
            key = self._key.from_connect_record(after.topic, [], after.key_schema, after.key)
            value = self._value.from_connect_record(after.topic, [], after.value_schema, after.value)
        except Exception as error:
            return Seen(place, record, fault=reason(error))
        return Seen(place, record, after, (key, value))

    def of_sink(self, found: tuple[str, TopicRecord]) -> Seen:
        """Return what the task would be given for a record that is in a topic."""
        topic, read = found
        place = f"{topic}-{read.partition}@{read.offset}"
        record = None
        try:
            record = self._read(topic, read)
            return Seen(place, record, self._chain.apply(record))
        except Exception as error:
            return Seen(place, record, fault=reason(error))

    def _read(self, topic: str, read: TopicRecord) -> SinkRecord:
        key_schema, key = self._key.to_connect_record(topic, read.headers, read.key)
        value_schema, value = self._value.to_connect_record(topic, read.headers, read.value)
        headers = tuple(self._read_header(topic, name, data) for name, data in read.headers)
        return SinkRecord(
            topic, read.partition, read.offset, value, value_schema, key, key_schema, read.timestamp_ms, headers
        )

    def _read_header(self, topic: str, name: str, data: bytes | None) -> Header:
        schema, value = self._header.to_connect_header(topic, name, data)
        return Header(name, value, schema)


def reason(error: BaseException) -> str:
    """Return what an error says, after the name of its class if that is not one of ours."""
    return str(error) if isinstance(error, ConnectError) else f"{type(error).__name__}: {error}"


def _registering(**converters: Converter) -> str:
    registering = (
        f"{type(one).__name__} would register a schema of the {role}"
        for role, one in converters.items()
        if isinstance(one, RegistryConverter) and one.auto_register_schemas
    )
    return next(registering, "")


def _shown(what: str, record: ConnectRecord) -> Iterator[str]:
    key, value = _text(record.key_schema, record.key), _text(record.value_schema, record.value)
    yield f"  {what:<7}  topic {record.topic}  key {key}  value {value}"
    for header in record.headers:
        yield f"           header {header.key} {_text(header.schema, header.value)}"


def _text(schema: Schema | None, value: Any) -> str:
    try:
        return _bytes(JsonConverter({"schemas.enable": "false"}).from_connect_data("", schema, value))
    except RecordError:
        return repr(value)[:_MOST]


def _bytes(data: bytes | None) -> str:
    text = "null" if data is None else data.decode("utf-8", "backslashreplace")
    return text if len(text) <= _MOST else f"{text[:_MOST]}… of {len(data or b'')} bytes"


_ASK_S = 8.0
_READER = "fencepost-plan"  # a group without commits
_CLASS, _VERSION = (ConnectorConfig.key_of(name) for name in ("connector_class", "connector_version"))


def planned(
    file: Path, properties: Path | None, bootstrap: str | None, plugin_path: Sequence[Path], count: int
) -> Iterator[str]:
    """Yield the lines. Raises ConfigError for what is wrong with the files, and the errors of plug-ins and of Kafka."""
    base = DEV if properties is None else read_worker_file(properties)
    worker = WorkerConfig({**base, **client_properties(properties, bootstrap)})
    stored, _ = read_connector(file)
    config = given_values(looked_up(worker, stored).require_now())
    hold_given_secrets(config)
    plan = ConnectorPlan.of_values(worker, config)
    plugins = plugins_of(worker, plugin_path, properties)
    connector = plugins.find(PluginKind.CONNECTOR, config.get(_CLASS, ""), config.get(_VERSION))
    is_source = issubclass(connector, SourceConnector)
    if is_source:
        ensure_startable(connector)
    _require_valid(stored, plugins, worker)
    pipeline = Pipeline(given_values(plan.effective), plugins.beside(connector).find)
    if is_source:
        seen = [pipeline.of_source(one) for one in polled(connector, config, count)]
    else:
        reader = range_conf({**plan.clients.consumer_properties, "isolation.level": "read_committed"}, _READER).conf
        seen = [pipeline.of_sink(one) for one in newest(reader, config, count)]
    for number, one in enumerate(seen, start=1):
        yield from map(printable, map(hide, one.lines(number)))
    filtered, failing = sum(one.is_filtered for one in seen), sum(bool(one.fault) for one in seen)
    records = counted(len(seen), "record")
    yield f"{records}: {filtered} would be filtered, {failing} would fail" if seen else "There are no records."
    if not is_source and not failing and seen:
        yield "What is after is what the task would be given."
    topics = {topic for one in seen for topic in one.topics} if is_source else set(names_in(config.get("topics")))
    conf = plan.clients.producer_properties if is_source else plan.clients.consumer_properties
    yield from _rights(conf, connector_rights(worker, config, topics if is_source else ()), topics)


def _require_valid(config: Mapping[str, str], plugins: PluginRegistry, worker: WorkerConfig) -> None:
    """Raise ConfigError for what workers would refuse, such as their own topics, and files that are not allowed."""
    try:
        report = validate_connector(config, plugins=plugins, worker=worker, asks_systems=False)
    except BadRequestError as error:
        raise ConfigError(str(error)) from None
    if report.error_count:
        raise ConfigError([error for one in report.configs for error in one.value.errors])


def _rights(properties: Mapping[str, object], acls: Iterable[Acl], topics: set[str]) -> Iterator[str]:
    needed = [
        acl for acl in acls if acl.resource is Resource.TOPIC and acl.name in topics and acl.need is Need.REQUIRED
    ]
    try:
        with closing(Admin(admin_conf(properties).conf, timeout_s=_ASK_S)) as admin:
            there, refused = admin.topics.look_at(sorted(topics))
    except (KafkaUnavailableError, KafkaAuthorizationError) as error:
        yield f"Rights are not checked: {error}"
        return
    missing = [
        a for a in needed if a.name in refused or (a.name in there and not there[a.name].allows(a.operation.name))
    ]
    for acl in missing:
        yield f"missing: {acl.operation.value} on topic {acl.name} for {acl.access.principal}, {acl.reason}"
    for topic in sorted(topics - there.keys() - refused.keys()):
        yield f"Topic {topic} does not exist."
    if not missing:
        yield "No right on these topics is missing. `fencepost acls` lists all rights."


_LONGEST_S = 30.0


def ensure_startable(connector: type[Any]) -> None:
    """Raise ConfigError for a source that is not started for a plan."""
    if isinstance(connector, KnowsSettings):
        raise ConfigError(
            f"{connector.__name__} is a Java class, and is not started for a plan: it may change the system that it "
            "reads, as Debezium's connectors create a replication slot"
        )
    if getattr(connector, "is_dataframe", False):
        raise ConfigError(f"{connector.__name__} is read by Spark, in a worker: its rows are not read for a plan")
    if is_mirror(connector):
        raise ConfigError(f"{connector.__name__} plans with other workers, and is not started for a plan")


def polled(connector: type[Any], config: Mapping[str, str], count: int) -> list[SourceRecord]:
    """Return records that the source's first task polls, from its beginning.

    Raises ConfigError for what it says of the config, and FatalError if it fails, or has not polled in time.
    """
    found: list[SourceRecord] = []
    failures: list[BaseException] = []

    def poll() -> None:
        try:
            run = SourceRun(connector, dict(config))
            try:
                found.extend(run.read(count)[:count])
            finally:
                run.stop()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=poll, name="plan", daemon=True)
    thread.start()
    thread.join(_LONGEST_S)
    if failures:
        if isinstance(failures[0], ConfigError):
            raise failures[0]
        raise FatalError(f"{connector.__name__} failed: {hide(reason(failures[0]))}") from None
    if thread.is_alive():
        raise FatalError(
            f"{connector.__name__} did not poll {count} record{'' if count == 1 else 's'} within {_LONGEST_S:g} s"
        )
    return found


def newest(conf: Mapping[str, Any], config: Mapping[str, str], count: int) -> Iterator[tuple[str, TopicRecord]]:
    """Yield the newest records of the topics that a config names. Raises ConfigError and the errors of Kafka."""
    topics = names_in(config.get("topics"))
    if not topics:
        raise ConfigError("topics is missing: a plan reads the topics that it names, and none of a topics.regex")
    for topic in topics:
        browser = TopicBrowser(conf, topic, timeout_s=_ASK_S)
        for record in read_page(browser, conf, RecordQuery(limit=count)).records:
            yield topic, record
