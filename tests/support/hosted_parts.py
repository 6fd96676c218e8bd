"""Transforms, predicates and converters that run in another process, as far as the runtime can see.

`FarSide` registers the classes and writes down which records cross; `lost` and `errors` make it fail.
"""

from collections.abc import Sequence
from typing import Any

from fencepost.api import ConnectRecord, Converter, Header, HeaderConverter, Predicate, RecordError, Transform
from fencepost.hook.hosted_chain import RAW, ChainUse, HostedPart, HostedStep, Passed, Refused, Role
from fencepost.plugin import find


class FarSide:
    """The other process. `crossed`: for each call of `run`, the roles of its steps and the values."""

    def __init__(self) -> None:
        self.crossed: list[tuple[list[str], list[Any]]] = []
        self.errors: dict[Any, list[Exception]] = {}
        """By value: what steps throw, one after the other, before they succeed."""
        self.lost: Exception | None = None
        self.chains: list[FarChain] = []
        side = self

        class Part(HostedPart):
            @classmethod
            def open_chain(cls, steps: Sequence[HostedStep], use: ChainUse) -> "FarChain":
                side.chains.append(FarChain(side, steps, use))
                return side.chains[-1]

        self.classes: dict[str, type[Any]] = {
            name: type(name, (Part, base), {})
            for name, base in (
                ("FarUpper", Transform),
                ("FarIsLong", Predicate),
                ("FarConverter", Converter),
                ("FarHeaderConverter", HeaderConverter),
            )
        }

    def find(self, kind: str, name: str, version: str | None = None, /) -> type[Any]:
        """Find these classes, and all others."""
        return self.classes[name] if name in self.classes else find(kind, name, version)

    def apply(self, step: HostedStep, record: Any, *, is_source: bool) -> Any:
        """Do what a step's class does. Values are texts."""
        if self.errors.get(record.value):
            raise self.errors[record.value].pop(0)
        match step.role:
            case Role.TRANSFORM:
                return None if record.value == "drop" else record.replace(value=record.value.upper())
            case Role.HEADER:
                changed = _to_bytes if is_source else _to_text
                return record.replace(headers=tuple(Header(h.key, *changed(h.value)) for h in record.headers))
            case Role.KEY:
                return record.with_key(*reversed((_to_bytes if is_source else _to_text)(record.key)))
        if is_source and any(header.schema is not RAW for header in record.headers):
            return record
        return record.with_value(*reversed((_to_bytes if is_source else _to_text)(record.value)))


class FarChain:
    """Implements `HostedChain`."""

    def __init__(self, side: FarSide, steps: Sequence[HostedStep], use: ChainUse) -> None:
        self.side, self.steps, self.use = side, steps, use
        self.is_closed = self.is_abandoned = False

    def run(
        self, records: Sequence[ConnectRecord], first: int, end: int, is_chosen: Sequence[bool] | None = None
    ) -> Passed | Refused:
        self.side.crossed.append(
            ([each.role.value for each in self.steps[first:end]], [record.value for record in records])
        )
        if any(record.value == "unsendable" for record in records):
            raise RecordError("it has no form")
        self._records, self._first, self._end = records, first, end
        self._chosen = [True] * len(records) if is_chosen is None else list(is_chosen)
        self._row, self._step, self._current = 0, first, None
        self._kept: list[tuple[int, Any]] = []
        return self._proceed()

    def again(self) -> Passed | Refused:
        return self._proceed()

    def skip(self) -> Passed | Refused:
        self._next()
        return self._proceed()

    def close(self) -> None:
        self.is_closed = True

    def abandon(self) -> None:
        self.is_abandoned = True

    def _next(self) -> None:
        self._row, self._step, self._current = self._row + 1, self._first, None

    def _proceed(self) -> Passed | Refused:
        if self.side.lost is not None:
            raise self.side.lost
        while self._row < len(self._records):
            current: Any = self._records[self._row] if self._current is None else self._current
            while current is not None and self._step < self._end:
                step, self._current = self.steps[self._step], current
                try:
                    current = self._applied(step, current)
                except Exception as error:
                    return Refused(self._row, self._step, error)
                self._step += 1
            if current is not None:
                self._kept.append((self._row, current))
            self._next()
        rows = [row for row, _ in self._kept]
        return Passed(rows, [record for _, record in self._kept], [self._chosen[row] for row in rows])

    def _applied(self, step: HostedStep, record: Any) -> Any:
        if step.role is Role.CHOOSE:
            self._chosen[self._row] = (len(record.value) > 3) is not step.is_negated
            return record
        if step.is_conditional and not self._chosen[self._row]:
            return record
        return self.side.apply(step, record, is_source=self.use.is_source)


def _to_bytes(value: Any) -> tuple[Any, Any]:
    return (None if value is None else f"far:{value}".encode()), RAW


def _to_text(data: Any) -> tuple[Any, Any]:
    return (None if data is None else data.decode()), None
