"""Every incarnation of a task has a transactional id of its own, so that nobody's predecessor is fenced (E2)."""

import uuid
from typing import Any

from fencepost.transaction import TransactionalWriter
from planted import replace


def _init(self: TransactionalWriter, conf: Any, transactional_id: str, *more: Any) -> None:
    known(self, conf, f"{transactional_id}-{uuid.uuid4().hex}", *more)
    self.transactional_id = transactional_id


known = replace(TransactionalWriter, "__init__", _init)
