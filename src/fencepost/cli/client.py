"""The worker's file and the settings of a command's Kafka clients: from a file, and from the command line."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from fencepost.config.client import combined
from fencepost.config.file import read_properties
from fencepost.config.reference import has_references, names_in
from fencepost.config.tracing import of_environment
from fencepost.config.worker import WorkerConfig

BOOTSTRAP = "bootstrap.servers"
_LOCAL = "127.0.0.1:9092"

DEV = {
    "group.id": "fencepost-dev",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "5",
    # As in Kafka Connect's sample file, so that the same connector writes the same bytes.
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
}
"""The settings of the worker of `dev`, without its address and its brokers."""


def client_properties(
    properties: Path | None,
    bootstrap: str | None,
    own: str | None = None,
    of_worker: Callable[[], str | None] = lambda: None,
) -> dict[str, str]:
    """Return a file's settings, such as a worker's, and the brokers: as given, else `own`, else the file's.

    Else they are those that `of_worker` returns. `own` are those of a connector's config. The credentials of the file
    do not go there, unless they are the file's.
    """
    given = {} if properties is None else read_worker_file(properties)
    if own and not bootstrap:
        return combined({BOOTSTRAP: _LOCAL, **given}, {BOOTSTRAP: own})
    return {**given, BOOTSTRAP: bootstrap or given.get(BOOTSTRAP) or of_worker() or _LOCAL}


def read_worker_file(path: Path) -> dict[str, str]:
    """Return the properties of a file, with the values that they refer to. Raises ConfigError."""
    return with_values(read_properties(path))


def plugin_path_of(path: Path) -> list[str]:
    """Return the entries of `plugin.path` in a worker's file. Raises ConfigError."""
    return names_in(read_worker_file(path).get(WorkerConfig.key_of("plugin_path")))


def with_values(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties of a worker with references to config providers replaced. Raises ConfigError.

    What the environment says about traces is added, if the worker sends any.
    """
    properties = {**of_environment(properties, os.environ), **properties}
    if not has_references(properties):
        return properties
    from fencepost.reference.providers import worker_properties  # and the registry, for which no other start waits

    return worker_properties(properties)


def plugin_directory() -> Path:
    """Return the directory in which `plugin install` puts plug-ins by default, and in which `dev` finds them.

    It is `$XDG_DATA_HOME/fencepost/plugins`, by default `~/.local/share/fencepost/plugins`, and need not exist.
    """
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "fencepost" / "plugins"
