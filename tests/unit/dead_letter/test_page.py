"""Pages of dead letters: together they have all of a connector's, each once, the newest first."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fencepost.cluster.topic_records import LetterPage
from fencepost.config import ConfigError
from fencepost.dead_letter.page import places, read_page
from fencepost.dead_letter.progress import Handled, Mark
from fencepost.kafka.read.browse import Effort, TopicRecord
from fencepost.secret.known import hold
from support.seed import new_seed

Headers = tuple[tuple[str, bytes | None], ...]


class Log:
    """A topic in memory, as `TopicBrowser` reads it."""

    topic = "dead"

    def __init__(self, *records: TopicRecord) -> None:
        self.records = records
        self.read_so_far = 0
        self.read_bytes = 0

    @property
    def ranges(self) -> Mapping[int, tuple[int, int]]:
        ends = dict.fromkeys(sorted({one.partition for one in self.records}), 0)
        for one in self.records:
            ends[one.partition] = max(ends[one.partition], one.offset + 1)
        return {partition: (0, end) for partition, end in ends.items()}

    def read(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[TopicRecord]:
        for partition, (first, end) in ranges.items():
            for one in self.records:
                if one.partition == partition and first <= one.offset < end:
                    self.read_so_far += 1
                    self.read_bytes += len(one.value or b"")
                    yield one


def letter(
    offset: int, connector: str | None = "c", value: bytes = b"v", partition: int = 0, at: int = 0
) -> TopicRecord:
    facts = {"topic": "orders", "partition": "1", "offset": "7", "exception.message": "no"}
    context: Headers = tuple((f"__connect.errors.{name}", text.encode()) for name, text in facts.items())
    context += () if connector is None else (("__connect.errors.connector.name", connector.encode()),)
    return TopicRecord(partition, offset, at or 1_000 + offset, None, value, context if connector else ())


def page(
    log: Log, handled: Mapping[int, Handled] | None = None, limit: int = 20, before: str | None = None, **options: Any
) -> LetterPage:
    browser: Any = log
    return read_page(browser, "c", handled or {}, limit=limit, before=places(before), **options)


def named(found: LetterPage) -> list[str]:
    return [one.letter for one in found.letters]


def test_dead_letter_page_has_the_newest_and_the_next_page_continues() -> None:
    log = Log(*map(letter, range(5)))
    first = page(log, limit=2)
    assert named(first) == ["dead-0@4", "dead-0@3"]
    second = page(log, limit=2, before=first.older)
    assert named(second) == ["dead-0@2", "dead-0@1"]
    last = page(log, limit=2, before=second.older)
    assert (named(last), last.older) == (["dead-0@0"], None)


def test_dead_letter_pages_show_each_letter_of_the_connector_once() -> None:
    drawn = random.Random(new_seed())
    for _ in range(10):
        log = Log(
            *(
                letter(offset, drawn.choice(["c", "c", "other", None]), partition=p, at=drawn.randint(1, 50))
                for p in range(drawn.randint(1, 3))
                for offset in range(drawn.randint(1, 100))
            )
        )
        effort, limit, before = Effort(drawn.choice([1, 40, 10_000])), drawn.randint(1, 30), None
        found: list[str] = []
        while True:
            part = page(log, limit=limit, before=before, effort=replace(effort))
            assert len(part.letters) <= limit
            found += named(part)
            if part.older is None:
                break
            before = part.older
        mine = [one for one in log.records if one.headers and one.headers[-1][1] == b"c"]
        assert sorted(found) == sorted(f"dead-{one.partition}@{one.offset}" for one in mine)
        offsets = {p: [int(one.partition("@")[2]) for one in found if one.startswith(f"dead-{p}@")] for p in range(3)}
        assert all(one == sorted(one, reverse=True) for one in offsets.values())


def test_dead_letter_page_hides_other_connectors_and_counts_unnamed_letters() -> None:
    """Unnamed letters may belong to a connector that the caller may not view, or be no dead letters at all."""
    found = page(Log(letter(0), letter(1, "other"), letter(2, None)))
    assert (named(found), found.unnamed) == (["dead-0@0"], 1)


def test_dead_letter_page_ends_after_its_record_limit_of_foreign_letters() -> None:
    log = Log(*(letter(offset, "other") for offset in range(20_000)))
    found = page(log, effort=Effort(records=1_000))
    assert (found.letters, found.older is not None) == ([], True)
    assert log.read_so_far < 4_000


@pytest.mark.parametrize(("partitions", "size"), [(8, 200_000), (1, 200_000), (3, 5_000_000), (100, 1_000_000)])
def test_dead_letter_page_reads_at_most_64_mib_and_one_record(partitions: int, size: int) -> None:
    """The page advances with records of any size."""
    value = b"x" * size
    log = Log(*(letter(n, value=value, partition=p) for p in range(partitions) for n in range(100)))
    found = page(log)
    assert log.read_bytes <= (64 << 20) + size
    assert len(found.letters) >= min(16, partitions)
    assert found.older is not None


def test_dead_letter_page_without_time_left_still_advances() -> None:
    log = Log(*(letter(n, partition=p) for p in range(3) for n in range(9)))
    found = page(log, effort=Effort(until_s=0.0))
    assert named(found) == ["dead-0@8"]
    assert log.read_so_far < 4
    assert named(page(log, effort=Effort(until_s=0.0), before=found.older)) == ["dead-0@7"]


def test_dead_letter_page_ends_when_rendering_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.dead_letter.page._SHOWING_S", -1.0)
    log = Log(*(letter(n, partition=p, at=n + 1) for p in range(2) for n in range(9)))
    late = {"effort": Effort(until_s=0.0)}
    monkeypatch.setattr(Effort, "is_late", False)
    found = page(log, **late)
    assert named(found) == ["dead-1@8"]
    assert named(page(log, before=found.older, **late)) == ["dead-0@8"]


def test_dead_letter_page_marks_resent_and_skipped_letters() -> None:
    log = Log(*map(letter, range(5)))
    found = page(log, {0: Handled(2, frozenset({3}))})
    assert [one.is_handled for one in found.letters] == [False, True, False, True, True]


@pytest.mark.parametrize("in_group", [None, Handled(0)])
def test_resend_mark_is_used_only_if_the_group_has_no_offset(in_group: Handled | None) -> None:
    """A broker deletes an idle group after a week; offsets that a user has set back are intended."""
    mark = Mark.of("c", Handled(2))
    log = Log(letter(0), letter(1), TopicRecord(0, 2, 1_002, mark.key, mark.value, tuple(mark.headers)), letter(3))
    found = page(log, {} if in_group is None else {0: in_group})
    assert [one.is_handled for one in found.letters] == [False, in_group is None, in_group is None]
    assert found.unnamed == 0


def test_cut_value_of_a_dead_letter_shows_no_part_of_a_secret() -> None:
    secret = "s3cr3t-of-the-sink"
    release = hold([secret])
    try:
        text = "x" * (4_096 - 5) + secret + "y" * 200_000
        [one] = page(Log(letter(0, value=text.encode()))).letters
        assert one.content.value is not None
        assert 4_000 < len(one.content.value.text) <= 4_096
        assert one.content.value.size_bytes == len(text)
        assert one.content.value.is_cut
        assert "s3cr" not in one.content.value.text
        [short] = page(Log(letter(0, value=f"a {secret} b".encode()))).letters
        assert short.content.value is not None
        assert short.content.value.text == "a [hidden] b"
    finally:
        release()


def test_long_value_counts_as_cut_even_if_hiding_shortened_it() -> None:
    [one] = page(Log(letter(0, value=b"password=" + b"p" * 3_000 + b" " + b"x" * 3_002))).letters
    assert one.content.value is not None
    assert one.content.value.is_cut


@pytest.mark.parametrize("position", ["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900])
def test_too_deeply_nested_source_partition_is_shown_as_text(position: str) -> None:
    forged = letter(0)
    headers = (*forged.headers, ("__connect.errors.partition", position.encode()))
    [one] = page(Log(forged._replace(headers=headers))).letters
    assert isinstance(one.origin.partition, str)


def test_consecutive_secrets_are_never_shown_in_part() -> None:
    """Hiding a secret shortens the text, so later text moves into the shown part."""
    secret = "".join(map(chr, range(ord("A"), ord("Z")))) * 100
    release = hold([secret])
    try:
        for before in range(0, 5_000, 700):
            [one] = page(Log(letter(0, value=b"." * before + secret.encode() * 30))).letters
            assert one.content.value is not None
            assert set(one.content.value.text) <= set(".[hidden]")
            assert one.content.value.is_cut
    finally:
        release()


@pytest.mark.parametrize("secret", ["s3cr3t-of-the-sink", "gehöhltes Wort"])
def test_secret_in_a_binary_value_is_hidden(secret: str) -> None:
    release = hold([secret])
    try:
        for value in (b"\xff" + secret.encode(), b"\xff" * 4_090 + secret.encode() + b"x" * 10_000):
            [one] = page(Log(letter(0, value=value))).letters
            assert one.content.value is not None
            assert (one.content.value.text, one.content.value.size_bytes) == ("[hidden]", len(value))
    finally:
        release()


def test_only_the_shown_part_of_a_dead_letter_is_searched_for_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of everything took 4 s for one letter and blocked other threads."""
    searched: list[int] = []
    monkeypatch.setattr("fencepost.dead_letter.page.hide", lambda text: searched.append(len(text)) or text)
    big = "password = " * 6_000
    headers: Headers = tuple((f"{n}{big}", big.encode()) for n in range(20))
    one = letter(0, value=big.encode())
    page(Log(one._replace(headers=(*headers, *one.headers))))
    assert sum(searched) < 150_000


def test_binary_values_and_divided_characters_of_dead_letters_are_shown() -> None:
    [binary] = page(Log(letter(0, value=b"\xff\x00"))).letters
    assert binary.content.value is not None
    assert (binary.content.value.text, binary.content.value.is_base64) == ("/wA=", True)
    [text] = page(Log(letter(0, value="ü".encode() * 100_000 + b"x"))).letters
    assert text.content.value is not None
    assert (text.content.value.is_base64, set(text.content.value.text)) == (False, {"ü"})


def test_malformed_page_position_is_refused() -> None:
    for before in ("x", "0", "0:1:2", "0:x"):
        with pytest.raises(ConfigError, match="is not the `older` of an earlier answer"):
            page(Log(letter(0)), before=before)
