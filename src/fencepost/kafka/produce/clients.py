"""Which client a transactional producer is."""

from collections.abc import Mapping
from typing import Any

from fencepost.kafka.produce.producer import ProducerClient
from fencepost.kafka.produce.transactional_client import ProducerError, TransactionalClient
from fencepost.kafka.setting.table import BATCH, CLIENT


def sends_batches(conf: Mapping[str, Any]) -> bool:
    """Say whether the transactional client that `conf` chooses sends whole batches, which columns make at once."""
    return conf.get(CLIENT) == BATCH


def batch_client_fault(conf: Mapping[str, Any]) -> str | None:
    """Return why the batch client cannot be made with these settings of a producer; None where it can."""
    from fencepost.kafka.produce.batch_client import BatchClient

    try:
        BatchClient({"transactional.id": "", **conf})
        return None
    except ProducerError as error:
        return str(error)


def transactional_client(conf: Mapping[str, Any]) -> TransactionalClient:
    """Make the client that `conf` chooses, librdkafka where it does not. Raises ProducerError for its settings."""
    rest = {key: value for key, value in conf.items() if key != CLIENT}
    if not sends_batches(conf):
        return ProducerClient(rest)
    from fencepost.kafka.produce.batch_client import BatchClient  # Arrow, for those who use it

    return BatchClient(rest)
