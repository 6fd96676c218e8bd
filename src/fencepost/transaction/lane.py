"""The transactional ids of one source task: Kafka Connect's own, and that of a second producer (decision 0011)."""

import logging
from concurrent.futures import ThreadPoolExecutor

from fencepost.transaction.errors import WriterFencedError, WriterOpenError
from fencepost.transaction.writer import TransactionalWriter

log = logging.getLogger(__name__)

_SECOND = "#1"


def lane_ids(transactional_id: str) -> tuple[str, str]:
    """Return the ids under which the holder of `transactional_id` may write; both are fenced, always (E2).

    The second can belong to no other task: the ids of tasks end in a number.
    """
    return transactional_id, f"{transactional_id}{_SECOND}"


def ids_beside(transactional_id: str) -> tuple[str, str]:
    """Return both ids of the task that has one of them."""
    return lane_ids(transactional_id.removesuffix(_SECOND))


def range_ids(transactional_id: str) -> str:
    """Return what the ids begin with that Spark's tasks write a task's ranges under; none can be another task's."""
    return f"{transactional_id}#"


def open_lanes(first: TransactionalWriter, second: TransactionalWriter, *, keeps_second: bool) -> bool:
    """Take both ids at once (E2: whoever held the first may have held the second, too).

    `second` is closed again unless it is to be kept. Returns False, and has closed it, where it is not authorised.

    Raises:
        WriterFencedError: somebody newer took an id that is to be kept.
        WriterOpenError: an id cannot be taken.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="second-lane") as pool:
        taking = pool.submit(_open_second if keeps_second else lock_out, second)
        first.open()
        return taking.result()


def lock_out(writer: TransactionalWriter, timeout_s: float | None = None) -> bool:
    """Take an id only to fence its holder (E2), and close the writer, which was not opened yet.

    Returns False for a second lane that is not authorised: no task of ours can have written under it. Raises
    WriterOpenError where the id cannot be taken.
    """
    try:
        if not writer.lock_out(timeout_s):
            writer.open(timeout_s)
        return True
    except WriterFencedError:
        return True  # whoever took it at the same moment has fenced the others
    except WriterOpenError as error:
        if not (error.is_denied and writer.transactional_id.endswith(_SECOND)):
            raise
        log.debug("no second lane: %s", error)  # only whoever wanted it has something to warn of
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
