"""The two clients that implement the port of transactions, for suites that run over both."""

import pytest

from fencepost.kafka.setting.table import BATCH, LIBRDKAFKA

CLIENTS = (LIBRDKAFKA, BATCH)


def other_than(client: str) -> str:
    """Return the client that a task may have after a change of its config."""
    return next(each for each in CLIENTS if each != client)


only_librdkafka = pytest.mark.parametrize("client", [LIBRDKAFKA], indirect=True)
"""For what is about that client: its log, its threads, its queue."""
only_batch = pytest.mark.parametrize("client", [BATCH], indirect=True)
"""For what is about that client: nothing is repeated."""
