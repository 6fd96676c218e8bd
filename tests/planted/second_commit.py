"""After a commit whose outcome is unknown the writer may be used as if nothing had happened (E6)."""

from typing import Any

from fencepost.transaction import TransactionalWriter, WriterState
from planted import replace


def _move(self: TransactionalWriter, target: Any) -> None:
    if target is not WriterState.UNKNOWN:
        known(self, target)


known = replace(TransactionalWriter, "_move", _move)
