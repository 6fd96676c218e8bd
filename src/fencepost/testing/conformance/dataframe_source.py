"""What every DataFrame source must do, as tests: `class TestMine(DataFrameSourceConformance)`."""

from collections.abc import Sequence
from typing import ClassVar

from fencepost.api import DataFrameConnector, Split
from fencepost.storage.offset_topic import OffsetFormatError, encode_key
from fencepost.testing.conformance.scene import Config, SparkChecks, scene
from fencepost.testing.source_run import properties_of

_LEAST = 2


class DataFrameSourceConformance(SparkChecks):
    """Checks of a DataFrame connector, with a Spark session and without Kafka, each with a new source.

    `prepare` makes a source of at least two splits, and returns the connector's config.

    >>> from pathlib import Path
    >>> from fencepost.builtin.connector.spool.source import SpoolDirectorySource
    >>> from fencepost.testing import DataFrameSourceConformance
    >>> class TestSpool(DataFrameSourceConformance):
    ...     connector = SpoolDirectorySource
    ...
    ...     def prepare(self, directory: Path) -> dict[str, object]:
    ...         for name in ("a", "b"):
    ...             (directory / name).write_text("1,one\\n2,two\\n")
    ...         return {"input.path": directory, "topic": "t", "input.schema": "n INT, word STRING"}
    >>> TestSpool().test_reads_the_same_rows_each_time()  # pytest calls all of them
    """

    connector: ClassVar[type[DataFrameConnector]]

    def test_splits_keep_their_identity(self) -> None:
        """Check that the same content has the same identity at each start, and that it can be stored."""
        with scene(self.prepare) as made:
            config = made.fresh()
            first, second = (self._identities(self._planned(self._started(config))) for _ in range(2))
            for number, (one, other) in enumerate(zip(first, second, strict=False)):
                assert one == other, (
                    f"Split {number} was {one.decode()} at one start and {other.decode()} at another: name only the "
                    "place and the content in `partition`, and return splits in a fixed order"
                )
            assert len(first) == len(second), f"One start has {len(first)} splits, another one {len(second)}"

    def test_no_two_splits_have_one_identity(self) -> None:
        """Check that splits differ in `partition`: a second one of the same identity would never be read."""
        with scene(self.prepare) as made:
            found = self._identities(self._planned(self._started(made.fresh())))
            twice = next((one for one in found if found.count(one) > 1), None)
            assert twice is None, f"Two splits have the partition {(twice or b'').decode()}: only one would be read"

    def test_reads_the_same_rows_each_time(self) -> None:
        """Check that a split that is read again has the same rows, in the same order if it says so."""
        with scene(self.prepare) as made:
            config = made.fresh()
            one, other = self._started(config), self._started(config)
            for first, second in zip(self._planned(one), self._planned(other), strict=False):
                rows, again = self._rows(one, first), self._rows(other, second)
                assert sorted(rows) == sorted(again), (
                    f"{_named(first)} has other rows when it is read again: after a crash a part of them would be "
                    "missing or there twice. Take nothing into `read` that changes while the identity stays"
                )
                assert rows == again or not first.is_single_file, (
                    f"{_named(first)} has its rows in another order when it is read again: leave `is_single_file` out"
                )

    def test_an_untouched_split_is_unchanged(self) -> None:
        """Check that `is_unchanged` is true while nothing has changed: otherwise the split is never committed."""
        with scene(self.prepare) as made:
            source = self._started(made.fresh())
            for split in self._planned(source):
                self._rows(source, split)
                assert source.is_unchanged(self.session(), split), (
                    f"is_unchanged() of {_named(split)} is false although nothing has changed"
                )

    def test_others_stay_when_one_is_finished(self) -> None:
        """Check that `finished` leaves all other splits as they are, also if it is called again after a crash."""
        with scene(self.prepare) as made:
            config = made.fresh()
            source = self._started(config)
            done, *others = self._planned(source)
            count = len(self._rows(source, done))
            is_over = source.finished(self.session(), done, count)
            later = self._started(config)
            if self._identity(done) in self._identities(self._splits(later)):
                later.finished(self.session(), done, count)
            left = self._identities(self._splits(later))
            lost = [split for split in others if self._identity(split) not in left]
            assert not lost, f"After finished() of {_named(done)}, {_named(lost[0])} is not planned any more"
            assert not (is_over and self._identity(done) in left), (
                f"finished() of {_named(done)} was true, which says that it is never planned again, but splits() still "
                "returns it: it would be read again"
            )

    # the parts of the checks

    def _started(self, config: Config) -> DataFrameConnector:
        """Return a new connector, as a worker has it that takes over."""
        return self.connector(properties_of(config))

    def _planned(self, source: DataFrameConnector) -> list[Split]:
        found = self._splits(source)
        assert len(found) >= _LEAST, (
            f"splits() gave {len(found)} splits: `prepare` must make at least {_LEAST}, to prove anything"
        )
        return found

    def _splits(self, source: DataFrameConnector) -> list[Split]:
        return sorted(source.splits(self.session()), key=lambda split: split.order)

    def _identities(self, splits: Sequence[Split]) -> list[bytes]:
        return [self._identity(split) for split in splits]

    def _identity(self, split: Split) -> bytes:
        try:
            return encode_key("", split.partition)
        except OffsetFormatError as error:
            raise AssertionError(f"{_named(split)}: {error}") from error

    def _rows(self, source: DataFrameConnector, split: Split) -> list[str]:
        if split.size_bytes == 0:
            return []
        return [repr(row) for row in source.read(self.session(), split).collect()]


def _named(split: Split) -> str:
    return f"The split {dict(split.partition)}"
