"""Chooses the client of a transactional producer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencepost.kafka.produce.producer import ProducerClient
from fencepost.kafka.produce.transactional_client import ProducerError, TransactionalClient
from fencepost.kafka.setting.table import BATCH, CLIENT, DIGESTS

if TYPE_CHECKING:
    from fencepost.kafka.produce.written_runs import WrittenRuns


def sends_batches(conf: Mapping[str, Any]) -> bool:
    """Return whether `conf` selects the client that sends whole batches, which it makes directly from columns."""
    return conf.get(CLIENT) == BATCH


def batch_client_fault(conf: Mapping[str, Any]) -> str | None:
    """Return why the batch client cannot be created with these producer settings; None if it can."""
    from fencepost.kafka.produce.batch_client import BatchClient

    try:
        BatchClient({"transactional.id": "", **conf})
        return None
    except ProducerError as error:
        return str(error)


def transactional_client(conf: Mapping[str, Any], runs: "WrittenRuns | None" = None) -> TransactionalClient:
    """Create the client that `conf` selects, by default librdkafka. Raises ProducerError for wrong settings.

    The batch client tells `runs` what it queues.
    """
    rest = {key: value for key, value in conf.items() if key not in (CLIENT, DIGESTS)}
    if not sends_batches(conf):
        return ProducerClient(rest)
    from fencepost.kafka.produce.batch_client import BatchClient  # imports Arrow only if needed

    return BatchClient(rest, runs)
