"""One run of the oracle's scenario against our worker; every comparison here reads its result."""

import pytest
from side import Side, drive, recorded

from fencepost.embedded import EmbeddedKafka


@pytest.fixture(scope="session")
def connect() -> Side:
    return recorded()


@pytest.fixture(scope="session")
def ours(kafka: EmbeddedKafka, connect: Side, tmp_path_factory: pytest.TempPathFactory) -> Side:
    return drive(kafka.bootstrap_servers, connect.exchanges, tmp_path_factory.mktemp("interchange"))
