"""Transforms and converters of which some run in another process, such as Java's: the steps, and records through them.

Steps are divided into runs of the same side. A batch goes through one run after the other: through those of this
process record by record, and as a whole through those of the other, so it crosses once for each change of side. Each
record meets each step once, and a failed step is repeated alone: another process may remember the records it has seen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from fencepost.api import ConnectRecord, Converter, Header, HeaderConverter, RecordError
from fencepost.builtin.transform.chain import Chain, Link
from fencepost.hook.hosted_chain import RAW, ChainUse, HostedChain, HostedPart, HostedStep, Passed, Refused, Role
from fencepost.record import HeaderBytes
from fencepost.task.failure.tolerance import Tolerance


@dataclass(slots=True)
class Row:
    """A record on its way. `original` is the record as it was polled or read."""

    index: int
    original: Any
    record: Any
    is_chosen: bool = True


class LocalStep(NamedTuple):
    """A step in this process. It changes the row and returns whether the record is kept; False: it is filtered."""

    role: Role
    apply: Callable[[Row], bool]


Step = LocalStep | HostedStep


@dataclass
class Mixed:
    """The steps of one task, with the connection to the other process. Belongs to one thread, but for `abandon`."""

    steps: Sequence[Step]
    use: ChainUse
    tolerance: Tolerance
    dropped: Callable[[int], object] = lambda index: None
    """Called with the index of a record that was dropped, after `tolerance` was told."""
    _chain: HostedChain | None = field(default=None, init=False)
    _hosted: list[int] = field(default_factory=list, init=False)
    """The places of the other process's steps, which it knows by their number in this list."""

    def __post_init__(self) -> None:
        self._hosted = [place for place, step in enumerate(self.steps) if isinstance(step, HostedStep)]

    def open(self) -> None:
        """Begin the chain in the other process. Does nothing the second time. Raises what a class throws."""
        hosted: list[Any] = [self.steps[place] for place in self._hosted]
        if self._chain is None and hosted:
            self._chain = hosted[0].part.open_chain(hosted, self.use)

    def close(self) -> None:
        chain, self._chain = self._chain, None
        if chain is not None:
            chain.close()

    def abandon(self) -> None:
        """End the other process at once. Any thread."""
        chain = self._chain
        if chain is not None:
            chain.abandon()

    def run(self, rows: list[Row], places: Sequence[int]) -> list[Row]:
        """Send rows through the steps at `places`, in that order. Returns those that are left.

        Raises FatalError if an error is not tolerated, and HostLostError.
        """
        for is_hosted, group in groupby(places, lambda place: isinstance(self.steps[place], HostedStep)):
            chosen = list(group)
            if is_hosted:
                rows = self._crossed(rows, chosen)
            else:
                rows = [row for row in rows if all(self._is_kept(row, self.steps[place]) for place in chosen)]
        return rows

    def _is_kept(self, row: Row, step: Any) -> bool:
        is_done, is_kept = self.tolerance.run(step.role.stage, partial(step.apply, row), row.original)
        if not is_done:
            self.dropped(row.index)
        return bool(is_kept)

    def _crossed(self, rows: list[Row], places: Sequence[int]) -> list[Row]:
        if not rows:
            return rows
        self.open()
        assert self._chain is not None
        first, end = self._hosted.index(places[0]), self._hosted.index(places[-1]) + 1
        steps = [self.steps[place].role for place in places]
        sent = [_part(row.record, steps) for row in rows]
        is_chosen = None if all(row.is_chosen for row in rows) else [row.is_chosen for row in rows]
        try:
            found = self._chain.run(sent, first, end, is_chosen)
        except RecordError as error:
            return self._without_unsendable(rows, places, error)
        while isinstance(found, Refused):
            found = self._judged(found, rows[found.row], self._hosted[found.step])
        for row, record, chosen in zip(found.rows, found.records, found.is_chosen, strict=True):
            _take(rows[row], record, steps)
            rows[row].is_chosen = chosen
        return [rows[row] for row in found.rows]

    def _judged(self, refused: Refused, row: Row, place: int) -> Passed | Refused:
        """Have the failed step tried again as long as the config says; then leave out the record, or raise."""
        assert self._chain is not None
        chain, errors = self._chain, [refused.error]

        def again() -> Passed | Refused:
            if errors:
                raise errors.pop()
            found = chain.again()
            if isinstance(found, Refused) and (found.row, found.step) == (refused.row, refused.step):
                raise found.error
            return found

        is_done, found = self.tolerance.run(self.steps[place].role.stage, again, row.original)
        if is_done and found is not None:
            return found
        self.dropped(row.index)
        return chain.skip()

    def _without_unsendable(self, rows: list[Row], places: Sequence[int], error: RecordError) -> list[Row]:
        """Drop the records that have a value which cannot be sent, and send the others."""
        if len(rows) > 1:
            middle = len(rows) // 2
            return [*self._crossed(rows[:middle], places), *self._crossed(rows[middle:], places)]

        def refuse() -> None:
            raise error

        self.tolerance.run(self.steps[places[0]].role.stage, refuse, rows[0].original)
        self.dropped(rows[0].index)
        return []


def hosted_parts(chain: Chain, *converters: Converter | HeaderConverter) -> bool:
    """Say whether any of these runs in another process."""
    parts = [part for link in chain.links for part in (link.transform, link.predicate)]
    return any(isinstance(part, HostedPart) for part in (*parts, *converters))


def steps_of_links(chain: Chain, config: Mapping[str, str]) -> list[Step]:
    """Return the steps of the transforms, each after the predicate that chooses its records."""
    steps: list[Step] = []
    for link in chain.links:
        prefix = f"transforms.{link.alias}."
        is_hosted = isinstance(link.transform, HostedPart)
        if link.predicate is not None:
            steps.append(_choose(link, f"predicates.{config[f'{prefix}predicate'].strip()}."))
        if is_hosted:
            part: Any = type(link.transform)
            steps.append(HostedStep(Role.TRANSFORM, part, prefix, is_conditional=link.predicate is not None))
        else:
            steps.append(LocalStep(Role.TRANSFORM, partial(_transform, link)))
    return steps


def _choose(link: Link, prefix: str) -> Step:
    if isinstance(link.predicate, HostedPart):
        return HostedStep(Role.CHOOSE, type(link.predicate), prefix, is_negated=link.is_negated)
    return LocalStep(Role.CHOOSE, partial(_chosen, link))


def _chosen(link: Link, row: Row) -> bool:
    row.is_chosen = link.applies_to(row.record)
    return True


def _transform(link: Link, row: Row) -> bool:
    if link.predicate is None or row.is_chosen:
        row.record = link.transform.apply(row.record)
    return row.record is not None


def _part(record: ConnectRecord, steps: Sequence[Role]) -> ConnectRecord:
    """Return the part of a record that the steps see: its headers, and the field that a converter converts."""
    if not {Role.TRANSFORM, Role.CHOOSE}.isdisjoint(steps):
        return record
    if Role.KEY not in steps:
        record = record.with_key(None, None)
    return record if Role.VALUE in steps else record.with_value(None, None)


def _take(row: Row, record: ConnectRecord, steps: Sequence[Role]) -> None:
    if not {Role.TRANSFORM, Role.CHOOSE}.isdisjoint(steps):
        row.record = record
        return
    found = row.record.replace(headers=record.headers)
    if Role.KEY in steps:
        found = found.with_key(record.key_schema, record.key)
    row.record = found.with_value(record.value_schema, record.value) if Role.VALUE in steps else found


@dataclass(frozen=True)
class ToBytes:
    """Converters that make bytes, in the order in which Kafka Connect calls them."""

    header_converter: HeaderConverter
    key_converter: Converter
    value_converter: Converter

    def steps(self) -> list[Step]:
        return [
            converter_step(Role.HEADER, self.header_converter, self._headers),
            converter_step(Role.KEY, self.key_converter, self._key),
            converter_step(Role.VALUE, self.value_converter, self._value),
        ]

    def _headers(self, row: Row) -> bool:
        if row.record.headers:
            row.record = row.record.replace(
                headers=raw([self._header(row.record, each) for each in row.record.headers])
            )
        return True

    def _header(self, record: ConnectRecord, header: Header) -> HeaderBytes:
        if header.schema is RAW:  # a converter has added it
            return header.key, header.value
        data = self.header_converter.from_connect_header(record.topic, header.key, header.schema, header.value)
        return header.key, data

    def _key(self, row: Row) -> bool:
        record, added = row.record, pairs(row.record)
        key = self.key_converter.from_connect_record(record.topic, added, record.key_schema, record.key)
        row.record = _with_headers(record, added).with_key(RAW, key)
        return True

    def _value(self, row: Row) -> bool:
        record, added = row.record, pairs(row.record)
        value = self.value_converter.from_connect_record(record.topic, added, record.value_schema, record.value)
        row.record = _with_headers(record, added).with_value(RAW, value)
        return True


def converter_step(role: Role, converter: Any, apply: Any) -> Step:
    """Return the step of a converter; `apply` converts in this process."""
    if isinstance(converter, HostedPart):
        return HostedStep(role, type(converter), f"{role}.converter.")
    return LocalStep(role, apply)


def pairs(record: ConnectRecord) -> list[HeaderBytes]:
    """Return headers that are bytes."""
    return [(header.key, header.value) for header in record.headers]


def raw(headers: Sequence[HeaderBytes]) -> tuple[Header, ...]:
    return tuple(Header(name, data, RAW) for name, data in headers)


def _with_headers(record: ConnectRecord, headers: list[HeaderBytes]) -> ConnectRecord:
    return record if headers == pairs(record) else record.replace(headers=raw(headers))
