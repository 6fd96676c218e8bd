"""`fencepost topic read`: which pages are asked for, and how a record is printed."""

from typing import Any

import pytest

from fencepost.cli.cluster.topic import lines_of, records
from fencepost.cli.connect import RefusedError
from fencepost.config import ConfigError


class FakeConnect:
    """Workers that answer with the records from the asked offset on, up to `most` in a page."""

    def __init__(self, count: int, most: int = 100) -> None:
        self.count = count
        self.most = most
        self.asked: list[tuple[object, object]] = []

    def get(self, *parts: object, **query: Any) -> Any:
        self.asked.append((query["from"], query["limit"]))
        limit = min(query["limit"], self.most)
        start = {"earliest": 0, "latest": max(0, self.count - limit)}.get(query["from"])
        first = int(query["from"].partition(":")[2]) if start is None else start
        end = min(self.count, first + limit)
        return {"records": list(range(first, end)), "next": f"0:{end}"}


def read(connect: Any, start: str, count: int) -> list[Any]:
    return list(records(connect, ("topics", "t", "records"), {"from": start}, count, is_endless=False))


def test_topic_read_requests_pages_until_it_has_enough_records() -> None:
    connect = FakeConnect(10, most=3)
    assert read(connect, "earliest", 7) == list(range(7))
    assert connect.asked == [("earliest", 7), ("0:3", 4), ("0:6", 1)]
    assert read(FakeConnect(2), "earliest", 7) == [0, 1]


def test_topic_read_gets_the_last_records_in_one_page() -> None:
    connect = FakeConnect(10)
    assert read(connect, "latest", 3) == [7, 8, 9]
    assert connect.asked == [("latest", 3)]


def test_endless_topic_read_continues_with_later_records(monkeypatch: pytest.MonkeyPatch) -> None:
    connect: Any = FakeConnect(3)

    def later(_: float) -> None:
        connect.count += 2

    monkeypatch.setattr("time.sleep", later)
    found = records(connect, ("topics", "t", "records"), {"from": "latest"}, 2, is_endless=True)
    assert [next(found) for _ in range(6)] == [1, 2, 3, 4, 5, 6]


def test_topic_read_names_a_worker_that_cannot_read_topics() -> None:
    class Old:
        access: Any = type("Access", (), {"named": "FENCEPOST_URL=http://k:1"})

        def get(self, *parts: object, **query: object) -> Any:
            raise RefusedError(404, "HTTP 404 Not Found")

    with pytest.raises(ConfigError, match="FENCEPOST_URL=http://k:1: these workers do not read topics"):
        read(Old(), "latest", 1)


def test_topic_read_escapes_control_characters() -> None:
    def shown(text: str, *, is_base64: bool = False, is_cut: bool = False) -> dict[str, Any]:
        return {"text": text, "is_base64": is_base64, "is_cut": is_cut, "size_bytes": 9}

    record = {
        "partition": 1, "offset": 7, "timestamp_ms": 1_000,
        "key": shown("k\x1b[2J"), "value": shown("AA==", is_base64=True),
        "headers": [{"name": "h", "value": shown("v", is_cut=True)}], "fault": "value: no Avro",
    }  # fmt: skip
    assert list(lines_of(record)) == [
        "1@7  1970-01-01 00:00:01.000Z",
        "  key  k\\x1b[2J",
        "  value  base64 AA==",
        "  header h  v … of 9 bytes",
        "  -- value: no Avro",
    ]
    tombstone = {**record, "key": None, "value": None, "headers": [], "fault": None, "timestamp_ms": None}
    assert list(lines_of(tombstone)) == ["1@7", "  value  (none)"]


class Failing:
    """Workers that fail with these errors, each once, before they answer."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self._answers = FakeConnect(1)
        self.access: Any = type("Access", (), {"named": "http://w:1"})

    def get(self, *parts: object, **query: Any) -> Any:
        if self._errors:
            raise self._errors.pop(0)
        return self._answers.get(*parts, **query)


def test_endless_topic_read_waits_for_a_missing_topic(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    missing = RefusedError(404, "There is no topic t (bootstrap.servers=k:1)")
    path, given = ("topics", "t", "records"), {"from": "earliest"}
    found = records(Failing(missing, missing), path, given, 5, is_endless=True)  # type: ignore[arg-type]
    assert next(found) == 0
    assert capsys.readouterr().err.count("There is no topic t") == 1
    with pytest.raises(RefusedError):
        next(records(Failing(missing), path, given, 5, is_endless=False))  # type: ignore[arg-type]
    other = RefusedError(404, "Connector c not found")
    with pytest.raises(RefusedError):
        next(records(Failing(other), path, given, 5, is_endless=True))  # type: ignore[arg-type]


def test_endless_topic_read_waits_for_a_worker_that_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    connect: Any = Failing()
    found = records(connect, ("topics", "t", "records"), {"from": "latest"}, 1, is_endless=True)
    assert next(found) == 0

    def later(_: float) -> None:
        connect._answers.count = 2

    monkeypatch.setattr("time.sleep", later)
    connect._errors = [ConfigError("no worker answers")]
    assert next(found) == 1
    away: Any = Failing(ConfigError("no worker answers"))
    with pytest.raises(ConfigError):
        next(records(away, ("topics", "t", "records"), {"from": "latest"}, 1, is_endless=True))
