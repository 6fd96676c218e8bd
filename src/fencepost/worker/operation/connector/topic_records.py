"""Records of topics, for people: any worker reads them, as a connector does or with its own settings."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any

from fencepost.api import Converter, FatalError, RecordError, UnavailableError
from fencepost.builtin.converter.json import JsonConverter
from fencepost.cluster.errors import BadRequestError, ConflictError, NotFoundError, OperationError
from fencepost.cluster.topic_records import EARLIEST, LATEST, RecordPage, RecordQuery, ShownRecord, TopicEntry
from fencepost.config import ConfigError
from fencepost.config.cluster import CLOSED
from fencepost.config.reference import RawConfig
from fencepost.dead_letter.page import (
    KEY,
    LEAST_PART,
    LONGEST_S,
    VALUE,
    in_time,
    places,
    shown_bytes,
    shown_headers,
    text_of,
)
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import MissingTopicError
from fencepost.kafka.read.browse import Effort, Range, TopicBrowser, TopicRecord, backwards, size_of
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.plugin import PluginKind, registry
from fencepost.plugin.secret_keys import hold_given_secrets
from fencepost.secret.known import hide
from fencepost.worker.operation.connector.answer import lineage_of
from fencepost.worker.operation.request import Requests
from fencepost.worker.plan import Client, ConnectorPlan, known, logged
from fencepost.worker.settings import WorkerSettings

ASK_S = 10.0
_MOST_READING = 4
"""How many pages of records a worker reads at the same time: each may hold many large records."""
_ROOM_S = 5.0
_OFFSET = re.compile(r"[0-9]{1,18}")
_PLACES = re.compile(r"[0-9]{1,9}:[0-9]{1,18}(,[0-9]{1,9}:[0-9]{1,18})*")
_MOST_RECORDS = 20_000
_MOST_BYTES = 16 << 20
_OF_TEXT = ("JsonConverter", "StringConverter", "ByteArrayConverter")  # their bytes can be read as they are
_REGISTRY_MS = "3000"
_BUILT_IN = "fencepost.builtin.converter."
_READER = "fencepost-look"  # a group without commits
_COMMITTED = {"isolation.level": "read_committed"}


class Room:
    """A few places. They are waited for only briefly: a Kafka that is away must not occupy REST's threads."""

    def __init__(self, pages: str) -> None:
        self._pages = pages
        self._places = threading.BoundedSemaphore(_MOST_READING)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a place. Raises ConflictError if there is none."""
        if not self._places.acquire(timeout=_ROOM_S):
            raise ConflictError(f"This worker is reading {_MOST_READING} other pages of {self._pages}: ask again")
        try:
            yield
        finally:
            self._places.release()


@contextmanager
def browsing(requests: Requests, stage: str) -> Iterator[None]:
    """Mark a stage of a request that reads records, and turn errors into answers."""
    with requests.asking(stage):
        try:
            yield
        except ConfigError as error:
            raise BadRequestError(str(error)) from error
        except FatalError as error:
            raise OperationError(str(error)) from error


@dataclass(frozen=True)
class ReadPage:
    """Records in the order of their times, and where each partition goes on."""

    records: list[TopicRecord]
    next: Mapping[int, int]


def read_page(browser: TopicBrowser, conf: Mapping[str, Any], query: RecordQuery) -> ReadPage:
    """Return the records that a query asks for, or fewer. Raises ConfigError, and what `TopicBrowser.read` raises."""
    ranges = _ranges(browser, query.partition)
    effort = Effort(_MOST_RECORDS, _MOST_BYTES, time.monotonic() + LONGEST_S)
    if query.start == LATEST:
        each = effort.part(min(max(1, len(ranges)), LEAST_PART))
        found = {p: _newest(browser, p, range_, query.limit, replace(each)) for p, range_ in ranges.items()}
        newest = sorted((row for rows in found.values() for row in in_time(rows, _itself)), key=_order)[-query.limit :]
        return ReadPage([row[3] for row in newest], {p: end for p, (_, end) in ranges.items()})
    starts = _starts(browser, conf, query.start, ranges)
    return _after(browser, {p: (starts.get(p, first), end) for p, (first, end) in ranges.items()}, query.limit, effort)


def _after(browser: TopicBrowser, ranges: Mapping[int, Range], limit: int, effort: Effort) -> ReadPage:
    """Return the first records of these ranges. A partition that there was no time for goes on where it began."""
    found = {p: _first(browser, p, range_, limit, effort) for p, range_ in ranges.items()}
    rows = sorted((row for records, _ in found.values() for row in in_time(records, _itself)), key=_order)
    left = {row[1]: row[2] for row in reversed(rows[limit:])}
    ends = {p: end for p, (_, end) in found.items()}
    return ReadPage([row[3] for row in rows[:limit]], {**ends, **left})


def _first(
    browser: TopicBrowser, partition: int, range_: Range, limit: int, effort: Effort
) -> tuple[list[TopicRecord], int]:
    """Return the first records of a range, and where to go on."""
    records: list[TopicRecord] = []
    first, end = range_
    if first >= end:
        return records, end
    if effort.is_spent:
        return records, first
    for record in browser.read({partition: range_}):
        effort.spend(1, size_of(record))
        records.append(record)
        if len(records) == limit or effort.is_spent:
            return records, record.offset + 1
    return records, end  # even if that took too long: there may be no records in it


def _newest(browser: TopicBrowser, partition: int, range_: Range, limit: int, effort: Effort) -> list[TopicRecord]:
    newest: list[TopicRecord] = []
    for _, records in backwards(browser.read, partition, range_, limit, effort):
        newest = records + newest
        if len(newest) >= limit:
            break
    return newest[-limit:]


def _ranges(browser: TopicBrowser, partition: int | None) -> dict[int, Range]:
    if partition is None:
        return dict(browser.ranges)
    if partition not in browser.ranges:
        raise ConfigError(f"partition={partition}: {browser.topic} has the partitions 0 to {len(browser.ranges) - 1}")
    return {partition: browser.ranges[partition]}


def _starts(
    browser: TopicBrowser, conf: Mapping[str, Any], text: str, ranges: Mapping[int, Range]
) -> Mapping[int, int]:
    """Return the offset at which each partition begins; one that is missing begins with its first record."""
    if text == EARLIEST:
        return {}
    if _OFFSET.fullmatch(text):
        return dict.fromkeys(ranges, int(text))
    if _PLACES.fullmatch(text):
        return places(text)
    at_ms = _time_ms(text)
    with closing(Admin(conf, timeout_s=ASK_S)) as admin:
        found = admin.offsets.at_times({(browser.topic, p): at_ms for p in ranges}, read_committed=True)
    return {place[1]: ranges[place[1]][1] if offset is None else offset for place, offset in found.items()}


def _time_ms(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"from={text}: write {EARLIEST}, {LATEST}, an offset such as 17, a time such as 2026-11-21T10:00:00Z, or "
            "the `next` of an earlier answer"
        ) from None
    return max(0, int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))  # others mean places in a log


def _itself(record: TopicRecord) -> TopicRecord:
    return record


def _order(row: tuple[int, int, int, TopicRecord]) -> tuple[int, int, int]:
    return row[:3]


class RecordView:
    """Shows the records of one page. A converter that is not built in is not run here: its bytes are shown."""

    def __init__(self, topic: str, config: Mapping[str, str | None]) -> None:
        self._topic = topic
        self._faults: dict[str, str] = {}
        self._until_s = inf
        self._as_json = JsonConverter({"schemas.enable": "false", "converter.type": "value"})
        self._converters = {role: self._converter(role, config) for role in ("key", "value")}

    def shown(self, record: TopicRecord) -> ShownRecord:
        """Return a record. Never raises for what cannot be converted."""
        faults: list[str] = []
        self._until_s = min(self._until_s, time.monotonic() + LONGEST_S)
        key, value = (
            self._text(role, data, record, faults) for role, data in (("key", record.key), ("value", record.value))
        )
        return ShownRecord(
            record.partition,
            record.offset,
            record.timestamp_ms,
            shown_bytes(key, KEY),
            shown_bytes(value, VALUE),
            list(shown_headers(record.headers)),
            "; ".join(faults) or None,
        )

    def _text(self, role: str, data: bytes | None, record: TopicRecord, faults: list[str]) -> bytes | None:
        converter = self._converters[role]
        if data is None or converter is None or role in self._faults:
            faults += [self._faults[role]] if role in self._faults else []
            return data
        try:
            if time.monotonic() > self._until_s:
                raise UnavailableError("converting the records before took too long; ask for fewer")
            schema, value = converter.to_connect_record(self._topic, record.headers, data)
            return self._as_json.from_connect_data(self._topic, schema, value)
        except RecordError as error:
            faults.append(f"{role}: {hide(str(error))}")
        except Exception as error:  # a registry that is away, or that refuses, is not asked for each record
            self._faults[role] = f"{role}: {hide(str(error))}"
            faults.append(self._faults[role])
        return data

    def _converter(self, role: str, config: Mapping[str, str | None]) -> Converter | None:
        name = config.get(f"{role}.converter") or ""
        found = registry().in_python(PluginKind.CONVERTER, name) if name else None
        if found is None or found[0].rpartition(".")[2] in _OF_TEXT:
            return None
        cls: Any = found[1][-1].loaded()
        if not cls.__module__.startswith(_BUILT_IN):
            return None
        prefix = f"{role}.converter."
        given = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
        limits = {"http.connect.timeout.ms": _REGISTRY_MS, "http.read.timeout.ms": _REGISTRY_MS}
        try:
            made: Converter = cls({**given, **limits, "converter.type": role})
        except ConfigError as error:
            self._faults[role] = f"{role}: {hide(str(error))}"
            return None
        return made


class TopicRecords:
    """The `TopicOperations` of a worker. `used` returns the topics that a connector has used."""

    def __init__(self, requests: Requests, settings: WorkerSettings, used: Callable[[str], Sequence[str]]) -> None:
        self._requests = requests
        self._settings = settings
        self._used = used
        self._room = Room("records")

    def topics(self) -> Sequence[TopicEntry]:
        with (
            browsing(self._requests, "listing topics"),
            closing(Admin(self._settings.admin_conf(), timeout_s=ASK_S)) as admin,
        ):
            found = admin.topics.get_all([name for name in admin.topics.names() if not self._is_closed(name)])
        return [TopicEntry(name, topic.partitions) for name, topic in sorted(found.items())]

    def records(self, topic: str, query: RecordQuery) -> RecordPage:
        with browsing(self._requests, f"reading topic {topic}"):
            properties = {**self._settings.config.internal_client_properties, **_COMMITTED}
            return self._page(topic, query, logged(range_conf(properties, _READER)), {})

    def records_of(self, connector: str, topic: str, query: RecordQuery) -> RecordPage:
        snapshot = self._requests.known(connector)
        with browsing(self._requests, f"reading topic {topic} of connector {connector}"):
            config = known(self._settings.config, snapshot.connectors[connector])
            lineage = lineage_of(snapshot, connector, self._used(connector))
            read, written = (
                {end.name for end in ends if end.type == "topic"} for ends in (lineage.reads, lineage.writes)
            )
            if topic not in read | written:
                raise BadRequestError(
                    f"{topic} is not a topic that {connector} is known to read or write: "
                    f"{', '.join(sorted(read | written)) or 'there is none yet'}"
                )
            release = hold_given_secrets(config)  # a record may hold what the connector does (E11)
            try:
                return self._page(topic, query, self._conf(config, is_read=topic in read), config)
            finally:
                release()

    def _conf(self, config: RawConfig, *, is_read: bool) -> dict[str, Any]:
        clients = ConnectorPlan.of_values(self._settings.config, config).clients
        if not is_read:
            return clients.conf(Client.DEAD_LETTER_READER, _READER)
        recipe = clients.recipe(Client.RANGE, _READER)
        return logged(replace(recipe, own={**recipe.own, **_COMMITTED}).translated(clients.look_up))

    def _page(self, topic: str, query: RecordQuery, conf: Mapping[str, Any], config: RawConfig) -> RecordPage:
        if self._is_closed(topic):
            raise BadRequestError(f"{topic}: {CLOSED}")
        view = RecordView(topic, ConnectorPlan.of_values(self._settings.config, config).effective)
        with self._room.held():
            try:
                browser = TopicBrowser(conf, topic, timeout_s=ASK_S)
            except MissingTopicError as error:
                raise NotFoundError(str(error)) from error
            page = read_page(browser, conf, query)
            records = [view.shown(record) for record in page.records]
        return RecordPage(topic, len(browser.ranges), records, text_of(page.next))

    def _is_closed(self, topic: str) -> bool:
        return self._settings.config.closed_topics.has(topic)
