"""`fencepost acls`: the rights that a worker and a connector need in Kafka, as a table or as commands."""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from fencepost.builtin.mirror.dedicated.file import MirrorFile
from fencepost.builtin.mirror.setting.mirror_settings import MirrorSettings
from fencepost.cli.client import read_worker_file
from fencepost.cli.cluster.acl_clients import (
    UNKNOWN_TOPIC,
    Principals,
    connector_access,
    is_sink,
    mirror_access,
    parse_principals,
    sink_access,
    stream_access,
    worker_access,
)
from fencepost.cli.cluster.rights import (
    Acl,
    AnyAccess,
    ClientIdentity,
    ConnectorAccess,
    Need,
    Resource,
    StreamAccess,
    ledger_acls,
    mirror_acls,
    query_acls,
    required_acls,
)
from fencepost.cli.output import aligned
from fencepost.config import ConfigError
from fencepost.config.properties import read_properties
from fencepost.config.worker import WorkerConfig
from fencepost.worker.connector_classes import is_query_config, is_stream_config
from fencepost.worker.plan import ConnectorPlan, ledger_topic, looked_up

_TOOL = ("kafka-acls.sh", "--bootstrap-server")
_ADMIN_FILE = "admin.properties"
_HEADINGS = ("principal", "resource", "name", "operation", "need", "for")


def print_acls(
    worker: Path,
    connector: Path | None,
    *,
    topics: Sequence[str] = (),
    principals: Sequence[str] = (),
    as_commands: bool = False,
    is_prefixed: bool = False,
) -> None:
    """Print the list, without a request to Kafka. Raises ConfigError if a file cannot be read or is wrong.

    If `worker` is a MirrorMaker 2 file, the list has a part for each flow, with its worker and connectors.
    """
    asked = _Asked(Principals(), topics, is_prefixed)
    if MirrorFile.key_of("clusters") not in read_properties(worker):
        asked = replace(asked, principals=parse_principals(principals))
        given = [] if connector is None else [read_connector(connector)]
        parts = {"": asked.rights(WorkerConfig(read_worker_file(worker)), given)}
    elif connector is None:
        file = MirrorFile.load(worker)
        asked = replace(asked, principals=parse_principals(principals, file.clusters))
        parts = dict(asked.of_flows(file))
    else:
        raise ConfigError(f"{worker} already defines the connectors: remove {connector} from the command")
    for flow, listed in parts.items():
        if flow:
            typer.echo(f"# {flow}\n")
        for line in commands(listed) if as_commands else table(listed):
            typer.echo(line)


def connector_rights(worker: WorkerConfig, connector: Mapping[str, str], topics: Iterable[str]) -> Sequence[Acl]:
    """Return the rights of a worker and one connector that writes to these topics. Raises ConfigError."""
    return _Asked(Principals(), sorted(topics), is_prefixed=False).rights(worker, [(dict(connector), False)])


@dataclass(frozen=True)
class _Asked:
    """What the command line adds to the files."""

    principals: Principals
    topics: Sequence[str]
    is_prefixed: bool

    def of_flows(self, file: MirrorFile) -> Iterator[tuple[str, Sequence[Acl]]]:
        """Yield the rights of each flow of a file, with its name."""
        for number, flow in enumerate(file.flows()):
            own = flow.connectors().values()
            running = [(config, False) for config in own if config[MirrorSettings.key_of("is_enabled")] == "true"]
            of_flow = replace(self, principals=self.principals.of_flow(flow.source, flow.target))
            yield flow.name, of_flow.rights(WorkerConfig(flow.worker_properties(number)), running)

    def rights(self, config: WorkerConfig, connectors: Iterable[tuple[dict[str, str], bool]]) -> Sequence[Acl]:
        """Return the rights of a worker and of connectors; each comes with whether it has initial offsets."""
        found: list[AnyAccess] = []
        others: list[Acl] = []
        for stored, has_initial_offsets in connectors:
            properties = looked_up(config, stored).require_now()
            access = self._access(config, properties, has_initial_offsets=has_initial_offsets)
            mirror = None
            if isinstance(access, StreamAccess) and is_query_config(properties):
                from fencepost.spark.write.decision import PREFIX  # imports Kafka's clients
                from fencepost.spark.write.options import WriterConfig

                others += query_acls(access, str(WriterConfig.settings()["offsets.topic"].default), PREFIX)
            if isinstance(access, ConnectorAccess):
                mirror = mirror_access(properties, access, self.principals, self.topics)
                others += ledger_acls(access, ledger_topic(ConnectorPlan.of_values(config, properties)))
            found.append(access if mirror is None else mirror[0])
            others += [] if mirror is None else mirror_acls(mirror[1])
        return required_acls(worker_access(config, self.principals, self.topics), found, others)

    def _access(self, config: WorkerConfig, properties: dict[str, str], *, has_initial_offsets: bool) -> AnyAccess:
        given = self.principals
        how: dict[str, Any] = {"topics": self.topics, "has_initial_offsets": has_initial_offsets}
        if is_stream_config(properties):
            return stream_access(config, properties, given, is_prefixed=self.is_prefixed, **how)
        if is_sink(properties):
            return sink_access(config, properties, given, **how)
        return connector_access(config, properties, given, is_prefixed=self.is_prefixed, **how)


def read_connector(path: Path) -> tuple[dict[str, str], bool]:
    """Return a connector's config, in the format of `POST /connectors` or flat, and whether it has initial offsets.

    Raises ConfigError.
    """
    try:
        body = json.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ConfigError(f"{path}: must be a JSON object, as for POST /connectors")
    config = body.get("config", body)
    if not isinstance(config, dict):
        raise ConfigError(f"{path}: config must be a JSON object")
    name = body.get("name", config.get("name"))
    if not name:
        raise ConfigError(f"{path}: name is missing; transactional ids contain it")
    properties = {str(k): _text(v) for k, v in config.items() if v is not None}
    return {**properties, "name": str(name)}, bool(body.get("initial_offsets"))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def table(listed: Sequence[Acl]) -> Iterator[str]:
    """Yield the lines of a table for each Kafka cluster."""
    for cluster, own in groupby(listed, key=lambda acl: acl.access.cluster):
        yield f"Kafka at {cluster}"
        yield ""
        yield from aligned([_HEADINGS, *(_row(acl) for acl in own)])
        yield ""
    yield from _remarks(listed)


def _row(acl: Acl) -> tuple[str, ...]:
    name = f"{acl.name}*" if acl.is_prefix else acl.name
    need = " ".join((acl.need.value, acl.note)).strip() if acl.need is Need.IMPLIED else acl.need.value
    why = f"{acl.reason}; {acl.note}" if acl.note and acl.need is not Need.IMPLIED else acl.reason
    return acl.access.principal, acl.resource.value, name, acl.operation.value, need, why


def _remarks(listed: Sequence[Acl]) -> Iterator[str]:
    if any(acl.name == UNKNOWN_TOPIC and acl.resource is Resource.TOPIC for acl in listed):
        yield (
            f"{UNKNOWN_TOPIC} stands for the connector's topics, or those of delete.committed.topics: name each of "
            "them with --topic."
        )


def commands(listed: Sequence[Acl]) -> Iterator[str]:
    """Yield a shell script: required rights as commands, all others as comments."""
    for remark in _remarks(listed):
        yield f"# {remark}"
    yield from (_command(own) for own in _by_target(acl for acl in listed if acl.need is Need.REQUIRED))
    for own in _by_target(acl for acl in listed if acl.need is Need.OPTIONAL):
        yield f"# optional, {own[0].note}:"
        yield f"# {_command(own)}"
    for acl in listed:
        if acl.need is Need.IMPLIED:
            target = f"{acl.resource.value} {acl.name}"
            yield f"# implied {acl.note}: {acl.operation.value} on {target} for {acl.access.principal}"


def _by_target(listed: Iterable[Acl]) -> list[list[Acl]]:
    found: dict[tuple[object, ...], list[Acl]] = {}
    for acl in listed:
        found.setdefault(acl.target, []).append(acl)
    return list(found.values())


def _command(own: Sequence[Acl]) -> str:
    first = own[0]
    access: ClientIdentity = first.access
    words = [*_TOOL, access.cluster, "--command-config", _ADMIN_FILE, "--add", "--allow-principal", access.principal]
    for acl in own:
        words += ["--operation", acl.operation.value]
    if first.is_prefix:
        words += ["--resource-pattern-type", "prefixed"]
    words += [f"--{first.resource.value}", *([] if first.resource is Resource.CLUSTER else [first.name])]
    return shlex.join(words)
