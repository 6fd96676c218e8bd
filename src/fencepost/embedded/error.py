"""What can go wrong before a broker is ready, grouped by what the user does about it."""


class EmbeddedKafkaError(Exception):
    """The embedded Kafka cannot be used; the text says why and what to do."""


class JavaMissingError(EmbeddedKafkaError):
    """No Java, or one that is too old: one line, with the command that installs it."""


class JarError(EmbeddedKafkaError):
    """The jars could not be fetched, or are not the ones that `jars.sha256` lists."""


class BrokerStartError(EmbeddedKafkaError):
    """The broker did not become ready; carries the end of what it printed."""


class PortInUseError(BrokerStartError):
    """Another process listens where this broker should."""
