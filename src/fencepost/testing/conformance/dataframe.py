"""What DataFrame sinks and sources must do, as tests: `class TestMine(DataFrameSinkConformance)`, or of a source."""

import unittest
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from fencepost.api import DataFrameConnector, DataFrameSink, Epoch, OffsetRange, Split
from fencepost.storage.offset_topic import OffsetFormatError, encode_key
from fencepost.testing.conformance.scene import Config, Scene, SparkChecks, scene
from fencepost.testing.source_run import properties_of

_TOPIC = "testing"
_SIZE, _PARTITIONS = 5, 2
_LONGEST_TOKEN = 1000

_LEAST = 2


class DataFrameSinkConformance(SparkChecks):
    """Checks of a DataFrame sink, with a Spark session and without Kafka, each with a new store that `prepare` makes.

    The frames have the columns `n`, a whole number that no other row has, and `text`. `rows` says which `n` are seen.

    >>> import glob, json
    >>> from pathlib import Path
    >>> from fencepost.builtin.connector.files.sink import FilesSink
    >>> from fencepost.testing import DataFrameSinkConformance
    >>> class TestFiles(DataFrameSinkConformance):
    ...     connector = FilesSink
    ...
    ...     def prepare(self, directory: Path) -> dict[str, object]:
    ...         return {"path": directory, "format": "json"}
    ...
    ...     def rows(self, session, directory: Path) -> list[int]:
    ...         files = [Path(name) for name in glob.glob(f"{directory}/*.json")]
    ...         return [json.loads(line)["n"] for file in files for line in file.read_text().splitlines()]
    >>> TestFiles().test_a_repeated_write_shows_rows_once()  # pytest calls all of them
    """

    connector: ClassVar[type[DataFrameSink]]

    def rows(self, session: Any, directory: Path) -> Iterable[int]:
        """Return the `n` of each row that a reader of the store sees now."""
        raise NotImplementedError("override `rows`: return the n of each row that a reader of the store sees")

    def test_shows_nothing_before_publish(self) -> None:
        """Check that readers do not see what `write` has written until its token is published."""
        with scene(self.prepare) as made:
            config = made.fresh()
            self._token(self._started(config, 1), _epoch(1))
            seen = self._rows(made)
            assert not seen, f"After write() and before publish() a reader sees {len(seen)} rows"

    def test_a_repeated_write_shows_rows_once(self) -> None:
        """Check that after a crash in `write` the epoch is written again, and each row is seen once."""
        with scene(self.prepare) as made:
            config = made.fresh()
            self._write(self._started(config, 1), _epoch(1))
            sink = self._started(config, 1)
            sink.publish(self.session(), _epoch(1), self._write(sink, _epoch(1)))
            self._ensure_seen(made, range(_SIZE * _PARTITIONS), "After write() was called twice")

    def test_a_repeated_publish_shows_rows_once(self) -> None:
        """Check that after a crash in `publish` another task calls it again, and each row is seen once."""
        with scene(self.prepare) as made:
            config = made.fresh()
            sink = self._started(config, 1)
            token = self._write(sink, _epoch(1))
            sink.publish(self.session(), _epoch(1), token)
            self._started(config, 1, token).publish(self.session(), _epoch(1), token)
            self._ensure_seen(made, range(_SIZE * _PARTITIONS), "After publish() was called twice")

    def test_publishes_only_the_ranges_of_its_epoch(self) -> None:
        """Check that a range whose topic was deleted in between is not shown: its records may be written again."""
        with scene(self.prepare) as made:
            sink = self._started(made.fresh(), 1)
            token = self._token(sink, _epoch(1))
            sink.publish(self.session(), Epoch(1, _epoch(1).ranges[:1], "1"), token)
            self._ensure_seen(made, range(_SIZE), "After publish() with the first of two ranges")

    def test_started_keeps_rows_of_unpublished_epochs(self) -> None:
        """Check that a late `started` deletes neither what a token names nor what a successor writes."""
        with scene(self.prepare) as made:
            config = made.fresh()
            first = self._token(self._started(config, 1), _epoch(1))
            sink = self._started(config, 2, first)
            second = self._write(sink, _epoch(2))
            self._started(config, 2, first)  # a task that was replaced, late
            sink.publish(self.session(), _epoch(1), first)
            sink.publish(self.session(), _epoch(2), second)
            self._ensure_seen(made, range(2 * _SIZE * _PARTITIONS), "After a late started()")

    def test_tokens_are_short(self) -> None:
        """Check that a token is text of at most 1,000 characters: it is stored with the offset of each partition."""
        with scene(self.prepare) as made:
            token = self._write(self._started(made.fresh(), 1), _epoch(1))
            assert isinstance(token, str), f"write() returned {type(token).__name__}: return a text"
            assert len(token) <= _LONGEST_TOKEN, f"write() returned {len(token)} characters: return a name, not a list"

    # the parts of the checks

    def _started(self, config: Config, number: int, *tokens: str) -> DataFrameSink:
        """Return a new sink, as a task has it that takes over."""
        sink = self.connector(properties_of({"topics": _TOPIC, **config}))
        sink.owner = "testing/connect-testing"
        sink.started(self.session(), number, set(tokens))
        return sink

    def _write(self, sink: DataFrameSink, epoch: Epoch) -> str:
        first = (epoch.number - 1) * _SIZE * _PARTITIONS
        frame = self.session().range(first, first + _SIZE * _PARTITIONS, 1, _PARTITIONS)
        return sink.write(self.session(), frame.selectExpr("id AS n", "concat('row ', id) AS text"), epoch)

    def _token(self, sink: DataFrameSink, epoch: Epoch) -> str:
        token = self._write(sink, epoch)
        if token == "":
            raise unittest.SkipTest("write() shows rows at once, and a repeated one overwrites them")
        return token

    def _rows(self, made: Scene) -> Sequence[int]:
        return sorted(self.rows(self.session(), made.directory))

    def _ensure_seen(self, made: Scene, expected: range, when: str) -> None:
        seen = Counter(self._rows(made))
        twice = [n for n, count in seen.items() if count > 1]
        assert not twice, f"{when}, a reader sees {len(twice)} rows twice, the first is {twice[0]}"
        lost = [n for n in expected if n not in seen]
        assert not lost, f"{when}, a reader does not see {len(lost)} rows, the first is {lost[0]}"
        extra = [n for n in seen if n not in expected]
        assert not extra, f"{when}, a reader sees {len(extra)} rows that were not published, the first is {extra[0]}"


def _epoch(number: int) -> Epoch:
    start = (number - 1) * _SIZE
    ranges = tuple(OffsetRange(_TOPIC, partition, start, start + _SIZE) for partition in range(_PARTITIONS))
    return Epoch(number, ranges, str(number))


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
