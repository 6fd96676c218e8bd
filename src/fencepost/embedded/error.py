"""Errors before a broker is ready, grouped by how the user can react."""

from collections.abc import Sequence


class EmbeddedKafkaError(Exception):
    """The embedded Kafka cannot be used; the text says why and what to do."""


class JavaMissingError(EmbeddedKafkaError):
    """There is no Java, or it is too old. The text is one line with the command that installs it."""


class JarError(EmbeddedKafkaError):
    """The jars could not be fetched, or are not the ones that `jars.sha256` lists."""


class IvyError(JarError):
    """Ivy could not fetch something; `lines` are all that it printed."""

    def __init__(self, text: str, lines: Sequence[str]) -> None:
        super().__init__(text)
        self.lines = lines


class BrokerStartError(EmbeddedKafkaError):
    """The broker did not become ready. The text has its last output."""


class PortInUseError(BrokerStartError):
    """Another process uses a port of this broker."""


class EmbeddedPostgresError(Exception):
    """The embedded Postgres cannot be used; the text says why and what to do."""
