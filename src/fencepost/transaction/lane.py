"""The transactional ids of one source task: Kafka Connect's own, and that of a second producer (DESIGN 1, lanes)."""

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


def is_second_lane(transactional_id: str) -> bool:
    """Say whether an id is that of a second producer, which an administrator may leave unauthorised."""
    return transactional_id.endswith(_SECOND)


def open_lanes(first: TransactionalWriter, second: TransactionalWriter, *, keeps_second: bool) -> bool:
    """Take both ids at once (E2: whoever held the first may have held the second, too).

    `second` is closed again unless it is to be kept. Returns False, and has closed it, where it is not authorised.

    Raises:
        WriterFencedError: somebody newer took an id that is to be kept.
        WriterOpenError: an id cannot be taken.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="second-lane") as pool:
        taking = pool.submit(_open_second, second, keeps_second)
        first.open()
        return taking.result()


def _open_second(writer: TransactionalWriter, is_kept: bool) -> bool:
    is_open = False
    try:
        writer.open()
        is_open = True
        return True
    except WriterFencedError:
        if is_kept:
            raise
        return True  # whoever took it at the same moment has fenced the others
    except WriterOpenError as error:
        if not error.is_denied:
            raise
        log.debug("no second lane: %s", error)  # only whoever wanted it has something to warn of
        return False
    finally:
        if not (is_open and is_kept):
            writer.close()
