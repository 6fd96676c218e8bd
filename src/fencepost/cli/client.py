"""Settings of Kafka clients of a command: from a file, and from the command line."""

from pathlib import Path

from fencepost.config.properties import read_properties
from fencepost.config.reference import check_references

BOOTSTRAP = "bootstrap.servers"
_LOCAL = "127.0.0.1:9092"


def client_properties(properties: Path | None, bootstrap: str | None, own: str | None = None) -> dict[str, str]:
    """Return what a file says, such as a worker's, and where Kafka is: as given, else `own`, else as the file says."""
    given = {} if properties is None else read_properties(properties)
    check_references(given)
    return {**given, BOOTSTRAP: bootstrap or own or given.get(BOOTSTRAP) or _LOCAL}
