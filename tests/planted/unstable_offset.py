"""An offset is read as it is, though a transaction is about to lower it (E9)."""

from typing import Any

from fencepost.kafka.wire.requests import RequestClient
from planted import replace


def _ask(self: Any, request: Any, *arguments: Any, **named: Any) -> Any:
    if hasattr(request, "require_stable"):
        request.require_stable = False
    return known(self, request, *arguments, **named)


known = replace(RequestClient, "ask", _ask)
