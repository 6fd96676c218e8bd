"""Which client writes the transactions of a source's task, or of a split.

With `producer.client=auto` the batch client writes columns and batches, and librdkafka everything else: records that
are Python objects have to be handled one by one in any case.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from fencepost.api import Form
from fencepost.kafka.produce.producer import batch_client_fault, sends_batches
from fencepost.kafka.setting.table import BATCH, CLIENT, DIGESTS
from fencepost.task.channel.split_message import SplitRun
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.source.processing import Processor

log = logging.getLogger(__name__)

_LOOKS = "transforms or converters look inside records"


def chosen_conf(
    spec: TaskSpec, form: Form, make_processor: Callable[[], Processor], *, reads_batches: bool = False
) -> Mapping[str, Any]:
    """Return the producer settings of a task that may choose its client, with its choice."""
    if spec.commits.ledger_topic:
        left_out = spec.commits.ledger_topic, spec.output.offsets_topic
        return {**spec.output.producer_conf, CLIENT: BATCH, DIGESTS: left_out}
    if not spec.is_exactly_once or (form is Form.RECORDS and not reads_batches):
        return spec.output.producer_conf
    conf = {**spec.output.producer_conf, CLIENT: BATCH}
    refusal = batch_client_fault(spec.output.producer_conf)
    if refusal is None:
        processor = make_processor()
        with closing(processor):
            if reads_batches:
                refusal = batches_refusal(spec, conf, processor)
            elif not processor.keeps_columns:
                refusal = _LOOKS
    if refusal is not None:
        log.info("task %s writes with librdkafka: %s", spec.id, refusal)
        return spec.output.producer_conf
    log.info("task %s writes with the batch client", spec.id)
    return conf


def split_conf(run: SplitRun) -> Mapping[str, Any]:
    """Return the producer settings of a split's run, whose records are columns, with its choice of a client."""
    if not run.chooses_client or run.transactional_id is None:
        return run.producer_conf
    refusal = batch_client_fault(run.producer_conf)
    if refusal is not None:
        log.info("split run %s writes with librdkafka: %s", run.run, refusal)
        return run.producer_conf
    return {**run.producer_conf, CLIENT: BATCH}


def batches_refusal(spec: TaskSpec, conf: Mapping[str, Any], processor: Processor) -> str | None:
    """Return the reason why producers with these settings cannot copy record batches unopened, or None."""
    compression = conf.get("compression.type", "none")
    if not spec.is_exactly_once:
        return "the worker does not have exactly.once.source.support=enabled"
    if not sends_batches(conf):
        return "producer.client is librdkafka"
    if compression != "none":
        return f"the producer's compression.type is {compression}, but unopened batches keep their own compression"
    return None if processor.keeps_bytes else _LOOKS
