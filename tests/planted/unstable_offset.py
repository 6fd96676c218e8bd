"""An offset is read as it is, though a transaction is about to lower it (E9)."""

from typing import Any

from fencepost.kafka.group import group_survey
from planted import replace


async def _send(self: Any, request: Any, node_id: int | None = None) -> Any:
    if hasattr(request, "require_stable"):
        request.require_stable = False
    return await known(self, request, node_id)


known = replace(group_survey._Asking, "send", _send)
