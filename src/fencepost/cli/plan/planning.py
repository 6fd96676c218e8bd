"""A connector's plan: its records before and after, and the rights that are missing, as lines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fencepost.api import SourceConnector
from fencepost.cli.acls.listing import connector_rights, read_connector
from fencepost.cli.acls.rights import Acl, Need, Resource
from fencepost.cli.apply.offline import plugins_of
from fencepost.cli.client import DEV, client_properties, read_worker_file
from fencepost.cli.columns import counted
from fencepost.cli.plan.pipeline import Pipeline
from fencepost.cli.plan.records import ensure_startable, newest, polled
from fencepost.cluster.errors import BadRequestError
from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig
from fencepost.config.credentials import combined
from fencepost.config.raw import given_values, names_in
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError
from fencepost.kafka.setting.client_settings import admin_conf, range_conf
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.telemetry.plain_line import printable
from fencepost.telemetry.secret import hide
from fencepost.worker.client_recipes import overrides, producer_properties, shared_properties
from fencepost.worker.settings import looked_up, with_converters
from fencepost.worker.validation.validation import validate_connector

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
    plugins = plugins_of(worker, plugin_path, properties)
    connector = plugins.find(PluginKind.CONNECTOR, config.get(_CLASS, ""), config.get(_VERSION))
    is_source = issubclass(connector, SourceConnector)
    if is_source:
        ensure_startable(connector)
    _require_valid(stored, plugins, worker)
    pipeline = Pipeline(given_values(with_converters(config, worker)), plugins.beside(connector).find)
    if is_source:
        seen = [pipeline.of_source(one) for one in polled(connector, config, count)]
    else:
        reader = range_conf({**_consumer(worker, config), "isolation.level": "read_committed"}, _READER).conf
        seen = [pipeline.of_sink(one) for one in newest(reader, config, count)]
    for number, one in enumerate(seen, start=1):
        yield from map(printable, map(hide, one.lines(number)))
    filtered, failing = sum(one.is_filtered for one in seen), sum(bool(one.fault) for one in seen)
    records = counted(len(seen), "record")
    yield f"{records}: {filtered} would be filtered, {failing} would fail" if seen else "There are no records."
    if not is_source and not failing and seen:
        yield "What is after is what the task would be given."
    topics = {topic for one in seen for topic in one.topics} if is_source else set(names_in(config.get("topics")))
    conf = producer_properties(worker, config) if is_source else _consumer(worker, config)
    yield from _rights(conf, connector_rights(worker, config, topics if is_source else ()), topics)


def _require_valid(config: Mapping[str, str], plugins: PluginRegistry, worker: WorkerConfig) -> None:
    """Raise ConfigError for what workers would refuse, such as their own topics, and files that are not allowed."""
    try:
        report = validate_connector(config, plugins=plugins, worker=worker, asks_systems=False)
    except BadRequestError as error:
        raise ConfigError(str(error)) from None
    if report.error_count:
        raise ConfigError([error for one in report.configs for error in one.value.errors])


def _consumer(worker: WorkerConfig, config: Mapping[str, str]) -> dict[str, object]:
    return combined(shared_properties(worker, "consumer."), overrides(config, "consumer."))


def _rights(properties: Mapping[str, object], acls: Iterable[Acl], topics: set[str]) -> Iterator[str]:
    """Yield the rights on these topics that the principal with these client settings has not."""
    needed = [
        acl for acl in acls if acl.resource is Resource.TOPIC and acl.name in topics and acl.need is Need.REQUIRED
    ]
    try:
        with closing(Admin(admin_conf(properties).conf, timeout_s=_ASK_S)) as admin:
            there, refused = admin.topics.look_at(sorted(topics))
    except (KafkaUnavailableError, KafkaAuthorizationError) as error:
        yield f"Rights are not checked: {error}"
        return
    missing = [a for a in needed if a.name in refused or (a.name in there and not _allows(there[a.name], a))]
    for acl in missing:
        yield f"missing: {acl.operation.value} on topic {acl.name} for {acl.access.principal}, {acl.reason}"
    for topic in sorted(topics - there.keys() - refused.keys()):
        yield f"Topic {topic} does not exist."
    if not missing:
        yield "No right on these topics is missing. `fencepost acls` lists all rights."


def _allows(view: Any, acl: Acl) -> bool:
    return bool(view.allows(acl.operation.name))
