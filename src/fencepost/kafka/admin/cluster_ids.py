"""Finds the id of a client's cluster, because bootstrap servers can name the same cluster in many ways."""

from collections.abc import Callable, Mapping
from typing import Any

from fencepost.kafka.admin.client import Admin

_ASK_S = 15.0


def _ask(conf: Mapping[str, Any]) -> str:
    return Admin(conf, timeout_s=_ASK_S).cluster_id()


class ClusterIds:
    """Caches cluster ids by bootstrap servers. It asks for each until there is an answer. Thread-safe."""

    def __init__(self, ask: Callable[[Mapping[str, Any]], str] = _ask) -> None:
        self._ask = ask
        self._known: dict[str, str] = {}

    def of(self, conf: Mapping[str, Any]) -> str:
        """Return the id of the cluster that a client with `conf` (librdkafka's names) reaches.

        If the id is not cached yet, raises what `Admin.cluster_id` raises.
        """
        known = self._known.get(str(conf["bootstrap.servers"]))
        return self.asked(conf) if known is None else known

    def asked(self, conf: Mapping[str, Any]) -> str:
        """Return the id that the cluster has now: the servers may be another one's by then. Raises as `of` does."""
        found = self._known[str(conf["bootstrap.servers"])] = self._ask(conf)
        return found
