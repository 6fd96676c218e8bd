"""Compares one run of the ledger with the records that a log has for it."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from fencepost.kafka.codec.run_digest import BLOCK, RunDigest, WrittenRun
from fencepost.kafka.read.produced import Produced
from fencepost.ledger.entry import LedgerEntry
from fencepost.ledger.finding import Difference, DifferenceKind


@dataclass(frozen=True, slots=True)
class _Piece:
    """Records of the run from `index` on, which are in the log from `offset` on."""

    index: int
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class _Hole:
    """Records of the run from `index` on that the log does not have, or, with a negative count, has once more.

    `after` and `before` are the offsets of the records around it, -1 if there is none.
    """

    index: int
    count: int
    after: int
    before: int


@dataclass(slots=True)
class RunCheck:
    """What a log has of one run. `add` takes its records in the order of their offsets."""

    entry: LedgerEntry
    run: WrittenRun
    next: int = 0
    _seen: RunDigest = field(default_factory=RunDigest)
    _pieces: list[_Piece] = field(default_factory=list)
    _holes: list[_Hole] = field(default_factory=list)

    @property
    def is_seen(self) -> bool:
        return bool(self._pieces)

    @property
    def lacks_end(self) -> bool:
        """Return whether the log has no more records of the run, although there should be some."""
        return self.next < self.run.digest.records

    @property
    def begins_at(self) -> int:
        """Return how many of the first records the log does not have."""
        return self._pieces[0].index if self._pieces else self.run.digest.records

    @property
    def seen(self) -> int:
        """Return how many of the records the log has."""
        return sum(piece.count for piece in self._pieces)

    @property
    def compared(self) -> int:
        """Return how many of the records are in blocks that the log has completely."""
        records = self.run.digest.records
        known = enumerate(self._seen.digest().values)
        return sum(min(BLOCK, records - block * BLOCK) for block, crc in known if crc is not None)

    @property
    def last_offset(self) -> int:
        """Return the offset of the last record that was seen, -1 if none was."""
        return self._pieces[-1].offset + self._pieces[-1].count - 1 if self._pieces else -1

    def add(self, index: int, records: Produced) -> None:
        """Add records of the log: by their sequences they are those from `index` on."""
        count = len(records)
        if index < self.next:
            again = min(count, self.next - index)
            self._holes.append(_Hole(index, -again, self.last_offset, records.offset))
            if again == count:
                return
            records, index, count = records.part(again, count), index + again, count - again
        if index > self.next:
            self._holes.append(_Hole(self.next, index - self.next, self.last_offset, records.offset))
            self._seen.skip(index - self.next)
        self._seen.add_fields(records.values, records.keys, records.headers)
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.index + last.count == index and last.offset + last.count == records.offset:
            self._pieces[-1] = replace(last, count=last.count + count)
        else:
            self._pieces.append(_Piece(index, records.offset, count))
        self.next = index + count

    def end(self) -> None:
        """Note that the log has no more records of the run. Call this once, before asking for differences."""
        left = self.run.digest.records - self.next
        if left > 0:
            self._holes.append(_Hole(self.next, left, self.last_offset, -1))
            self._seen.skip(left)

    def differences(self, *, first_known: int = 0, may_lack: bool = False) -> Iterator[Difference]:
        """Yield where the log differs. Records before `first_known` may be missing; if it `may_lack` some, any may."""
        expected, seen = self.run.digest, self._seen.digest()
        holes = [_known(hole, expected.records if may_lack else first_known) for hole in self._holes]
        altered = sorted({*_unequal(expected.values, seen.values), *_unequal(expected.keys, seen.keys)})
        holes = [hole for hole in holes if hole.count]
        for hole in holes:
            yield self._of_hole(hole, altered)
        yield from (self._difference(DifferenceKind.ALTERED, *self._block(block)) for block in altered)
        if not self._holes and not altered and seen != expected:
            last = expected.records - 1
            text = "lengths of keys or values" if seen.lengths != expected.lengths else "headers"
            yield self._difference(DifferenceKind.FIELDS, self._offset(0), self._offset(last), last + 1, text)

    def _of_hole(self, hole: _Hole, altered: list[int]) -> Difference:
        """Return the difference of a hole, and take the blocks out of `altered` that it explains.

        If a record is lost before its batch is numbered, all later ones have another position, up to the end of the
        batch or the run, where one is missing: then the first block that differs says where.
        """
        kind = DifferenceKind.MISSING if hole.count > 0 else DifferenceKind.REPEATED
        count = abs(hole.count)
        begin = hole.index // BLOCK
        shifted = [block for block in altered if block <= begin]
        while shifted and shifted[0] + len(shifted) - 1 < shifted[-1]:
            shifted.pop(0)  # blocks that are as they should be lie between
        if shifted and shifted[-1] >= begin - 1:
            altered[:] = [block for block in altered if block not in shifted]
            first, last, _ = self._block(shifted[0])
            which = "one" if count == 1 else f"{count}"
            return self._difference(kind, first, last, count, f"{which} of these; those after it have moved")
        if kind is DifferenceKind.REPEATED:
            return self._difference(kind, hole.before, hole.before + count - 1, count)
        return self._difference(kind, hole.before if hole.before >= 0 else hole.after + 1, hole.after, count)

    def _difference(self, kind: DifferenceKind, first: int, last: int, records: int, detail: str = "") -> Difference:
        return Difference(kind, self.run.place, first, last, records, self.entry, detail)

    def _block(self, block: int) -> tuple[int, int, int]:
        first, stop = block * BLOCK, min((block + 1) * BLOCK, self.run.digest.records)
        return self._offset(first), self._offset(stop - 1), stop - first

    def _offset(self, index: int) -> int:
        """Return the offset of a record of the run, or of the nearest one that the log has."""
        at = max(0, bisect_right(self._pieces, index, key=lambda piece: piece.index) - 1)
        piece = self._pieces[at]
        return piece.offset + min(max(0, index - piece.index), piece.count - 1)


def _known(hole: _Hole, first_known: int) -> _Hole:
    deleted = min(max(0, first_known - hole.index), max(0, hole.count))
    return replace(hole, index=hole.index + deleted, count=hole.count - deleted)


def _unequal(expected: Sequence[int | None], seen: Sequence[int | None]) -> list[int]:
    """Return the blocks that differ. A column without any bytes has no checksums, which is the same as zeros."""
    pairs = enumerate(zip_longest(expected, seen, fillvalue=0))
    return [block for block, (one, other) in pairs if other is not None and one != other]
