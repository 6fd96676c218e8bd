"""Apache Kafka, and Postgres, as child processes, for development, tests and the demo: never a mock.

Core types: `EmbeddedKafka` (a context manager over one KRaft node), `KafkaHome` (its verified jars, cached
per user), `EmbeddedPostgres` (in `postgres`, from a wheel). Every error a user can cause is an `EmbeddedKafkaError` or
an `EmbeddedPostgresError`, whose text says what to do.

What holds:

- every listener, the controller's too, is on the loopback interface;
- a jar whose SHA-256 is not in `jars.sha256` is never run;
- the broker dies with the process that started it, even one killed with -9 (see `guard`);
- data in a directory that the caller gave survives; a directory of our own goes when the broker does.
"""

from fencepost.embedded.broker import EmbeddedKafka
from fencepost.embedded.error import BrokerStartError, EmbeddedKafkaError, JarError, JavaMissingError
from fencepost.embedded.home import KAFKA_VERSION

__all__ = [
    "KAFKA_VERSION",
    "BrokerStartError",
    "EmbeddedKafka",
    "EmbeddedKafkaError",
    "JarError",
    "JavaMissingError",
]
