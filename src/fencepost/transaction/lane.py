"""The transactional ids of one source task: Kafka Connect's, and that of a second producer (decision 0011).

They are taken together, and fenced together, as are those of many tasks at once.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fencepost.transaction.errors import WriterFencedError, WriterOpenError
from fencepost.transaction.writer import TransactionalWriter

log = logging.getLogger(__name__)

_SECOND = "#1"
_PARALLEL = 16

ConfOf = Callable[[str], Mapping[str, Any]]


def lane_ids(transactional_id: str) -> tuple[str, str]:
    """Return both ids that the holder of `transactional_id` may write under. They are always fenced together (E2).

    The second cannot be another task's id, because tasks' ids end in a number.
    """
    return transactional_id, f"{transactional_id}{_SECOND}"


def ids_of_task(transactional_id: str) -> tuple[str, str]:
    """Return both ids of the task that owns this one."""
    return lane_ids(transactional_id.removesuffix(_SECOND))


def range_ids(transactional_id: str) -> str:
    """Return the prefix of the ids under which Spark tasks write a task's ranges. No other task's id starts with it."""
    return f"{transactional_id}#"


def open_lanes(first: TransactionalWriter, second: TransactionalWriter, *, keeps_second: bool) -> bool:
    """Take both ids (E2: a holder of the first may also hold the second).

    `second` is closed again unless `keeps_second`. Returns False, with `second` closed, if it is not authorised.

    Raises:
        WriterFencedError: a newer producer took an id that is to be kept.
        WriterOpenError: an id cannot be taken.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="second-lane") as pool:
        taking = pool.submit(_open_second if keeps_second else lock_out, second)
        first.open()
        return taking.result()


def lock_out(writer: TransactionalWriter, timeout_s: float | None = None) -> bool:
    """Take an id only to fence its holder (E2), and close the writer, which was not opened yet.

    Returns False for a second lane that is not authorised: then no task can have written under it. Raises
    WriterOpenError if the id cannot be taken.
    """
    try:
        if not writer.lock_out(timeout_s):
            writer.open(timeout_s)
        return True
    except WriterFencedError:
        return True  # another producer that took it at the same moment has fenced the holder
    except WriterOpenError as error:
        if not (error.is_denied and writer.transactional_id.endswith(_SECOND)):
            raise
        log.debug("no second lane: %s", error)  # only a caller that wanted it has a reason to warn
        return False
    finally:
        writer.close()


def _open_second(writer: TransactionalWriter) -> bool:
    try:
        writer.open()
        return True
    except WriterOpenError as error:
        writer.close()
        if not error.is_denied:
            raise
        return False
    except BaseException:
        writer.close()
        raise


def fence(transactional_ids: Iterable[str], conf_of: ConfOf, timeout_s: float) -> None:
    """Fence the holders of the ids in parallel and end their transactions. Returns once all are fenced (E2).

    `conf_of(id)` returns the producer settings. Raises WriterOpenError if an id cannot be fenced.
    """
    ids = list(transactional_ids)
    if not ids:
        return
    with ThreadPoolExecutor(min(_PARALLEL, len(ids)), thread_name_prefix="fence") as pool:
        for done in [pool.submit(lock_out, TransactionalWriter(conf_of(i), i), timeout_s) for i in ids]:
            done.result()
