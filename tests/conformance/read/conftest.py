"""What fills the topics that are read."""

from collections.abc import Iterator

import pytest

from fencepost.embedded import EmbeddedKafka
from support.log_writer import LogWriter


@pytest.fixture(scope="module")
def log_writer(kafka: EmbeddedKafka) -> Iterator[LogWriter]:
    made = LogWriter(kafka.bootstrap_servers)
    yield made
    made.close()
