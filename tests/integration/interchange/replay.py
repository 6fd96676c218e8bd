"""The oracle's scenario against our worker: the same requests in the same order, every answer kept."""

from collections.abc import Callable, Sequence
from typing import Any

from fencepost.storage.offset_topic import OffsetReader, stored
from fencepost.testing import eventually
from oracle.recorder import Json, Recorder

Exchange = dict[str, Any]

_SETTLED_S = 90.0
_READ_S = 60.0

# The recorded task fails on a number that is none, which our validation refuses: nothing would be left to fail.
FAILS_LATER = {"throughput": "5", "topic": "refused/by/kafka"}


class Replay(Recorder):
    """Sends what was recorded again.

    What a worker says of itself follows what it was told to do, so a question (GET) whose answer is not the recorded
    one is asked again for a while; `differs` compares one answer with the recorded one.
    """

    longest_wait_s = 120.0  # Spark may still be starting

    def __init__(
        self,
        url: str,
        recorded: Sequence[Exchange],
        differs: Callable[[Exchange, Exchange], object],
        offsets: "Offsets",
        log: Callable[[], str],
    ) -> None:
        """`log` returns what the worker has printed."""
        super().__init__(url)
        self._recorded = recorded
        self._differs = differs
        self._offsets = offsets
        self._log = log
        self._starts_before = 0  # of the first task of the connector that was configured last

    def call(
        self, method: str, path: str, body: Json = None, *, raw: str | None = None, media: str = "application/json"
    ) -> Json:
        expected = self._recorded[len(self.exchanges)]
        assert (method, path, body if raw is None else None) == (
            expected["method"],
            expected["path"],
            expected["body"],
        ), "the scenario is not the recorded one; record it again"
        if body and body.get("name") == "failing":
            body = {**body, "config": {**body["config"], **FAILS_LATER}}
        if method == "PUT" and path.endswith("/config"):
            self._starts_before = self._starts(path.split("/")[2])
        answer = super().call(method, path, body, raw=raw, media=media)
        if method == "GET" and path.startswith("/connectors") and self._differs(expected, self.exchanges[-1]):
            answer = self._ask_again(expected)
        return answer

    def _ask_again(self, expected: Exchange) -> Json:
        def settled() -> bool:
            self.exchanges.pop()
            super(Replay, self).call(expected["method"], expected["path"])
            return not self._differs(expected, self.exchanges[-1])

        try:
            eventually(settled, within_s=_SETTLED_S)
        except AssertionError:
            pass  # the comparison shows what the difference is
        return self.exchanges[-1]["response"]

    def wait_reconfigured(self, connector: str) -> None:
        """Until the new start, which comes once the old one has ended: that would still send what is appended."""
        eventually(lambda: self._starts(connector) > self._starts_before, within_s=self.longest_wait_s)
        super().wait_reconfigured(connector)

    def _starts(self, connector: str) -> int:
        return self._log().count(f"task {connector}-0 starts here")

    def wait_offset(self, connector: str, accept: Callable[[Json], bool]) -> None:
        eventually(lambda: accept(self._offsets.of(connector)), within_s=self.longest_wait_s)


class Offsets:
    """The topic of offsets, read as the worker reads it."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._reader = OffsetReader({"bootstrap.servers": bootstrap_servers}, topic)

    def of(self, connector: str) -> Json:
        return [{"partition": p, "offset": o} for p, o in stored(self._reader.read_known(connector, _READ_S))]

    def close(self) -> None:
        self._reader.close()
