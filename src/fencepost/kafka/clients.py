"""Which client a transactional producer is."""

from collections.abc import Mapping
from typing import Any

from fencepost.kafka.producer import ProducerClient
from fencepost.kafka.setting_table import BATCH, CLIENT
from fencepost.kafka.transactional_client import TransactionalClient


def transactional_client(conf: Mapping[str, Any]) -> TransactionalClient:
    """Make the client that `conf` chooses, librdkafka where it does not. Raises ProducerError for its settings."""
    rest = {key: value for key, value in conf.items() if key != CLIENT}
    if conf.get(CLIENT) != BATCH:
        return ProducerClient(rest)
    from fencepost.kafka.batch.client import BatchClient  # Arrow, for those who use it

    return BatchClient(rest)
