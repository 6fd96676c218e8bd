"""`fencepost acls`: the rights that a worker and a connector need in Kafka, as a table or as commands."""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from fencepost.cli.columns import aligned
from fencepost.cluster.acl import Access, Acl, AnyAccess, Need, Resource, required_acls
from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.worker.connector_classes import is_stream_config
from fencepost.worker.operation.access import (
    UNKNOWN_TOPIC,
    Principals,
    connector_access,
    is_sink,
    parse_principals,
    sink_access,
    stream_access,
    worker_access,
)

_TOOL = ("kafka-acls.sh", "--bootstrap-server")
_ADMIN_FILE = "admin.properties"
_HEADINGS = ("principal", "resource", "name", "operation", "need", "for")


def acls(
    worker: Path,
    connector: Path | None,
    *,
    topics: Sequence[str] = (),
    principals: Sequence[str] = (),
    as_commands: bool = False,
    is_prefixed: bool = False,
) -> None:
    """Print the list. Raises ConfigError: a file cannot be read or is wrong. Nothing is asked of Kafka."""
    config = WorkerConfig.load(worker)
    given = parse_principals(principals)
    found = []
    if connector is not None:
        properties, has_initial_offsets = read_connector(connector)
        how = {"topics": topics, "has_initial_offsets": has_initial_offsets}
        found.append(_access(config, properties, given, is_prefixed, how))
    listed = required_acls(worker_access(config, given, topics), found)
    lines = commands(listed) if as_commands else table(listed)
    for line in lines:
        typer.echo(line)


def _access(
    config: WorkerConfig, properties: dict[str, str], given: Principals, is_prefixed: bool, how: dict[str, Any]
) -> AnyAccess:
    """Return what a connector is; `how` says what its config does not."""
    if is_stream_config(properties):
        return stream_access(config, properties, given, is_prefixed=is_prefixed, **how)
    if is_sink(properties):
        return sink_access(config, properties, given, **how)
    return connector_access(config, properties, given, is_prefixed=is_prefixed, **how)


def read_connector(path: Path) -> tuple[dict[str, str], bool]:
    """Return a connector's config, written as for `POST /connectors` or flat, and whether it has initial offsets.

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
        raise ConfigError(f"{path}: name is missing: transactional ids are made of it")
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
            f"{UNKNOWN_TOPIC} stands for the connector's topics, or those of delete.committed.topics: name them with "
            "--topic, once for each."
        )


def commands(listed: Sequence[Acl]) -> Iterator[str]:
    """Yield a shell script: what is required as commands, the rest as comments."""
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
    """Return one command for all operations on one resource."""
    first = own[0]
    access: Access = first.access
    words = [*_TOOL, access.cluster, "--command-config", _ADMIN_FILE, "--add", "--allow-principal", access.principal]
    for acl in own:
        words += ["--operation", acl.operation.value]
    if first.is_prefix:
        words += ["--resource-pattern-type", "prefixed"]
    words += [f"--{first.resource.value}", *([] if first.resource is Resource.CLUSTER else [first.name])]
    return shlex.join(words)
