"""The transforms, predicates and converters of a Python connector in a host."""

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.api.hosted_chain import Passed, Refused
from fencepost.builtin.java.client.crossing import Crossing
from fencepost.builtin.java.client.line import Line
from fencepost.builtin.java.client.thrown import exception_of
from fencepost.builtin.java.client.wire import Message
from fencepost.builtin.java.error import JavaPluginError
from fencepost.record import ConnectRecord


class ChainClient:
    """Sends records through the steps of a session of its own."""

    def __init__(self, line: Line, *, is_source: bool) -> None:
        self._line = line
        self._crossing = Crossing(is_source=is_source)
        self._given: Sequence[ConnectRecord] = ()

    def run(
        self, records: Sequence[ConnectRecord], first: int, end: int, is_chosen: Sequence[bool] | None
    ) -> Passed | Refused:
        """Raises RecordError if a value has no form; nothing has been sent then."""
        buffers = self._crossing.written(records)
        if is_chosen is not None:
            buffers.append(("chosen", bytes(is_chosen)))
        self._given = records
        request = {"op": "run", "rows": len(records), "first": first, "end": end}
        return self._outcome(self._line.ask(request, buffers))

    def again(self) -> Passed | Refused:
        return self._outcome(self._line.ask({"op": "again"}))

    def skip(self) -> Passed | Refused:
        return self._outcome(self._line.ask({"op": "skip"}))

    def close(self) -> None:
        self._line.close()

    def _outcome(self, answer: Message) -> Passed | Refused:
        found: Mapping[str, Any] = answer.head["result"]
        if "failed" in found:
            row, step, thrown = found["failed"]
            error = exception_of(thrown)
            if isinstance(error, JavaPluginError):
                raise error
            return Refused(row, step, error)
        rows: Sequence[int] = found["rows"]
        given = [self._given[row] for row in rows]
        buffers = answer.buffers
        records = self._crossing.read(buffers["schemas"], buffers["records"], given)
        return Passed(rows, records, [each != 0 for each in buffers["chosen"]])
