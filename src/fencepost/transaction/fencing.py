"""Fences the holders of many transactional ids at once."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fencepost.transaction.lane import lock_out
from fencepost.transaction.writer import TransactionalWriter

ConfOf = Callable[[str], Mapping[str, Any]]

_PARALLEL = 16


def fence(transactional_ids: Iterable[str], conf_of: ConfOf, timeout_s: float) -> None:
    """Fence the holders of the ids in parallel and end their transactions. Returns once all are fenced (E2).

    `conf_of(id)` returns the producer settings. Raises WriterOpenError if an id cannot be fenced.
    """
    ids = list(transactional_ids)
    if not ids:
        return
    with ThreadPoolExecutor(min(_PARALLEL, len(ids)), thread_name_prefix="fence") as pool:
        for done in [pool.submit(_fence_one, i, conf_of(i), timeout_s) for i in ids]:
            done.result()


def _fence_one(transactional_id: str, conf: Mapping[str, Any], timeout_s: float) -> None:
    lock_out(TransactionalWriter(conf, transactional_id), timeout_s)
