"""Which client writes the transactions of a source's task.

Where nobody has said which (`producer.client=auto`), the batch client writes what is columns or batches already, and
librdkafka the rest: a record that is objects of Python's has to be looked at by itself in any case.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.api import Form
from fencepost.kafka.clients import sends_batches
from fencepost.kafka.setting_table import BATCH, CLIENT
from fencepost.kafka.settings import lacking
from fencepost.task.processing import Processor
from fencepost.task.spec import TaskSpec

log = logging.getLogger(__name__)

_LOOKS = "transforms or converters look inside records"


def chosen_conf(spec: TaskSpec, form: Form, make_processor: Callable[[], Processor]) -> Mapping[str, Any]:
    """Return the settings of the producers of a task that may choose, with the client that it chooses."""
    if not spec.is_exactly_once or form is Form.RECORDS:
        return spec.producer_conf
    conf = {**spec.producer_conf, CLIENT: BATCH}
    faults = lacking(spec.producer_conf)
    refusal = "; ".join(f"{key}: {why}" for key, why in faults.items()) or _refusal(spec, conf, form, make_processor())
    if refusal is not None:
        log.info("task %s writes with librdkafka: %s", spec.id, refusal)
        return spec.producer_conf
    log.info("task %s writes with the batch client", spec.id)
    return conf


def split_conf(spec: TaskSpec) -> Mapping[str, Any]:
    """Return the settings of who writes a task's splits: rows of Spark's are columns."""
    may_choose = spec.chooses_client and spec.is_exactly_once and not lacking(spec.producer_conf)
    return {**spec.producer_conf, CLIENT: BATCH} if may_choose else spec.producer_conf


def batches_refusal(spec: TaskSpec, conf: Mapping[str, Any], processor: Processor) -> str | None:
    """Return why producers with these settings cannot write record batches as they were read; None where they can."""
    compression = conf.get("compression.type", "none")
    if not spec.is_exactly_once:
        return "the worker does not have exactly.once.source.support=enabled"
    if not sends_batches(conf):
        return "producer.client is librdkafka"
    if compression != "none":
        return f"the producer's compression.type is {compression}, and batches keep what they have"
    return None if processor.keeps_bytes else _LOOKS


def _refusal(spec: TaskSpec, conf: Mapping[str, Any], form: Form, processor: Processor) -> str | None:
    """Return why columns, or batches, would be taken apart before they are written."""
    if form is Form.BATCHES:
        return batches_refusal(spec, conf, processor)
    return None if processor.keeps_columns else _LOOKS
