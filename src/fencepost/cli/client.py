"""Settings of a command's Kafka clients: from a file, and from the command line."""

from pathlib import Path

from fencepost.config.properties import read_properties
from fencepost.config.reference import check_references

BOOTSTRAP = "bootstrap.servers"
_LOCAL = "127.0.0.1:9092"


def client_properties(properties: Path | None, bootstrap: str | None, own: str | None = None) -> dict[str, str]:
    """Return a file's settings, such as a worker's, and the brokers: as given, else `own`, else the file's."""
    given = {} if properties is None else read_properties(properties)
    check_references(given)
    return {**given, BOOTSTRAP: bootstrap or own or given.get(BOOTSTRAP) or _LOCAL}
