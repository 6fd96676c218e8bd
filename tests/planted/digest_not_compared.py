"""A micro-batch is skipped when its number is decided, whatever offsets it was made of (E23)."""

from typing import Any

from fencepost.spark.write import committer
from planted import replace


def _is_decided(decision: Any, batch: int, digest: str) -> bool:
    return decision is not None and batch <= decision.batch


replace(committer, "is_decided", _is_decided)
