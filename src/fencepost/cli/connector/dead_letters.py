"""`fencepost dead-letters`: shows dead letters, for people and for programs, and resends those of sinks."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import typer

from fencepost.cli.client import BOOTSTRAP, client_properties
from fencepost.cli.connect import Connect, RefusedError
from fencepost.cli.output import counting, print_json
from fencepost.config import ConfigError
from fencepost.config.connector import DeadLetterConfig
from fencepost.config.reference import names_in
from fencepost.dead_letter.letter import DeadLetter, Skipped, parsed
from fencepost.dead_letter.progress import Handled, ResendProgress, is_mark, progress_name
from fencepost.dead_letter.resend import RESEND, Resend
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.group.memberless import Bookmark
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.kafka.setting.client_settings import admin_conf, range_conf, transactional_conf
from fencepost.task.failure.dead_letter import (
    CLASS,
    CONNECTOR,
    EXCEPTION,
    MESSAGE,
    OFFSET,
    PARTITION,
    STACKTRACE,
    STAGE,
    TASK,
    TOPIC,
)

_WIDTH = 160


def to_json(letter: DeadLetter, *, is_sent_again: bool) -> dict[str, Any]:
    """Return everything as JSON: bytes are text if they are UTF-8, else `{"base64": …}`."""
    facts, record = letter.facts, letter.record
    return {
        "letter": {"topic": letter.topic, "partition": record.partition, "offset": record.offset},
        "timestamp": record.timestamp_ms,
        "connector": facts.get(CONNECTOR),
        "task": parsed(facts.get(TASK)),
        "origin": {
            "topic": facts.get(TOPIC),
            "partition": parsed(facts.get(PARTITION)),
            "offset": parsed(facts.get(OFFSET)),
            "timestamp": letter.time_ms,
        },
        "stage": facts.get(STAGE),
        "class": facts.get(CLASS),
        "exception": facts.get(EXCEPTION),
        "message": facts.get(MESSAGE),
        "stacktrace": facts.get(STACKTRACE),
        "key": _machine(record.key),
        "value": _machine(record.value),
        "headers": [[name, _machine(data)] for name, data in letter.headers],
        "is_sent_again": is_sent_again,
    }


def lines(letter: DeadLetter, *, is_sent_again: bool) -> Iterator[str]:
    """Yield a summary in a few lines, each shortened."""
    facts, record = letter.facts, letter.record
    where = letter.place
    again = "sent again" if is_sent_again else ""
    if not facts:
        yield "  ".join(part for part in (where, _when(record.timestamp_ms), again) if part)
        yield "  without context headers (errors.deadletterqueue.context.headers.enable)"
    else:
        origin = f"from {facts.get(TOPIC)}-{facts.get(PARTITION)}@{facts.get(OFFSET)}"
        if letter.time_ms != record.timestamp_ms:
            origin += f" of {_when(letter.time_ms)}"
        task = f"task {facts[TASK]}" if TASK in facts else None
        parts = (where, _when(record.timestamp_ms), origin, facts.get(STAGE), task, again)
        yield _shown("  ".join(part for part in parts if part))
        is_whole = EXCEPTION in facts
        error = f"{facts[EXCEPTION]}: {facts.get(MESSAGE)}" if is_whole else "too large for headers about its failure"
        yield f"  {_shown(error)}"
    yield f"  key    {_human(record.key)}"
    yield f"  value  {_human(record.value)}"


def summary(dead_letters: Sequence[DeadLetter], topic: str, connector: str) -> str:
    """Return the last line: how many there are, and how many of an unknown connector."""
    text = f"{len(dead_letters)} dead letter{'s' if len(dead_letters) != 1 else ''} of {connector} in {topic}"
    unknown = sum(dead_letter.connector is None for dead_letter in dead_letters)
    return f"{text}; {unknown} of them have no header with their connector" if unknown else text


def _when(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def _machine(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _human(data: bytes | None) -> str:
    return "(none)" if data is None else _shown(data[: 4 * _WIDTH].decode("utf-8", "backslashreplace"))


def _shown(text: str) -> str:
    """Return one line of the text without terminal control characters."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: 2 * _WIDTH])
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


_PAGE = 50


class Letters(NamedTuple):
    """The newest dead letters of a topic, the oldest of them first, each with whether it was sent again or passed over.

    `unnamed`: records met that do not say which connector they are of, and so are not among them.
    """

    topic: str
    found: list[tuple[DeadLetter, bool]]
    unnamed: int


def newest_letters(connect: Connect, name: str, limit: int) -> Letters | None:
    """Return the newest `limit` dead letters of a connector, or all with 0; None if these workers do not show any.

    Raises RefusedError if it has no dead letter topic, and what `Connect` raises.
    """
    topic, found, unnamed, asked = "", list[tuple[DeadLetter, bool]](), 0, dict[str, object]()
    while not limit or len(found) < limit:
        count = min(_PAGE, limit - len(found)) if limit else _PAGE
        try:
            page = connect.get("connectors", name, "dead-letters", limit=count, **asked)
        except RefusedError as error:
            if error.status in (404, 405):
                return None
            raise
        topic, unnamed = page["topic"], unnamed + page["unnamed"]
        found += [(_letter(name, topic, each), bool(each["is_handled"])) for each in page["letters"]]
        if not page["older"]:
            break
        asked = {"before": page["older"]}
    return Letters(topic, found[::-1], unnamed)


def _letter(name: str, topic: str, shown: Mapping[str, Any]) -> DeadLetter:
    origin, error, content = shown["origin"], shown["error"], shown["content"]
    facts = {
        TOPIC: origin["topic"],
        PARTITION: _text(origin["partition"]),
        OFFSET: _text(origin["offset"]),
        CONNECTOR: name,
        TASK: _text(shown["task"]),
        STAGE: error["stage"],
        CLASS: error["class_name"],
        EXCEPTION: error["exception"],
        MESSAGE: error["message"],
        STACKTRACE: error["stacktrace"],
    }
    partition, _, offset = shown["letter"].removeprefix(f"{topic}-").partition("@")
    key, value = _bytes(content["key"]), _bytes(content["value"])
    record = TopicRecord(int(partition), int(offset), shown["timestamp_ms"], key, value)
    return DeadLetter(topic, record, {k: v for k, v in facts.items() if v is not None}, origin["timestamp_ms"])


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bytes(shown: Mapping[str, Any] | None) -> bytes | None:
    if shown is None:
        return None
    return base64.b64decode(shown["text"]) if shown["is_base64"] else shown["text"].encode()


ASK_S = 10.0
_TOPIC = DeadLetterConfig.key_of("dead_letters_topic")
_READER = "fencepost-dead-letters"  # a group without commits
_NAME_IT = "set the worker's brokers with --bootstrap, or its file with --properties"


@dataclass(frozen=True)
class Where:
    """A worker, and the address of its Kafka.

    `properties`: a file of client settings, or the worker's own.
    """

    connect: Connect
    properties: Path | None = None
    bootstrap: str | None = None

    def client(self, connector: Mapping[str, str]) -> dict[str, str]:
        """Return the client settings for a connector's dead letters, which are where its producers write."""
        own = connector.get(f"producer.override.{BOOTSTRAP}")
        return client_properties(self.properties, self.bootstrap, own, self.connect.brokers)

    @property
    def is_given(self) -> bool:
        """Return whether the user says where Kafka is."""
        return self.properties is not None or self.bootstrap is not None


@dataclass(frozen=True)
class DescribedConnector:
    """A connector as REST describes it."""

    name: str
    kind: str
    config: Mapping[str, str]
    cluster_id: str

    @property
    def topic(self) -> str:
        """Return its dead letter topic. Raises ConfigError if it has none, or only a reference to one."""
        topic = (self.config.get(_TOPIC) or "").strip()
        if not topic:
            raise ConfigError(f"{self.name} has no dead letter topic: set {_TOPIC} in its config")
        if topic.startswith("${"):
            raise ConfigError(f"{_TOPIC} of {self.name} is {topic}, which only its worker can resolve: use --topic")
        return topic


def connector_at(connect: Connect, name: str) -> DescribedConnector:
    """Ask a worker. Raises ConfigError, with the next step, or RefusedError."""
    found = connect.find("connectors", name)
    if found is None:
        raise ConfigError(f"There is no connector {name} on the workers ({connect.access.named})")
    cluster_id = str(connect.get().get("kafka_cluster_id", ""))
    return DescribedConnector(name, str(found.get("type")), found["config"], cluster_id)


def reader_conf(connector: DescribedConnector, where: Where) -> dict[str, Any]:
    """Return the settings to read dead letters. Raises ConfigError if the brokers are not the worker's cluster."""
    properties = where.client(connector.config)
    try:
        with closing(Admin(admin_conf(properties).conf, timeout_s=ASK_S)) as admin:
            cluster_id = admin.cluster_id()
    except KafkaUnavailableError as error:
        raise ConfigError(f"{error}; {_NAME_IT}") from None
    is_elsewhere = f"producer.override.{BOOTSTRAP}" in connector.config
    if connector.cluster_id and cluster_id != connector.cluster_id and not is_elsewhere:
        raise ConfigError(
            f"The Kafka at {properties[BOOTSTRAP]} is {cluster_id}, but that of the worker "
            f"({where.connect.access.named}) is {connector.cluster_id}: {_NAME_IT}"
        )
    return dict(range_conf({**properties, "isolation.level": "read_committed"}, _READER).conf)


def show(name: str, where: Where, *, topic: str | None, limit: int, is_from_beginning: bool, as_json: bool) -> None:
    """Print dead letters, by REST if nothing asks for more than that shows. Raises ConfigError, or Kafka's errors."""
    if not (topic or is_from_beginning or as_json or where.is_given):
        letters = newest_letters(where.connect, name, limit)
        if letters is not None:
            for dead_letter, is_handled in letters.found:
                typer.echo("\n".join([*lines(dead_letter, is_sent_again=is_handled), ""]))
            typer.echo(summary([each for each, _ in letters.found], letters.topic, name))
            if letters.unnamed:
                typer.echo(f"{letters.unnamed} more have no header with their connector: --from-beginning shows them")
            return
    connector = connector_at(where.connect, name)
    conf = reader_conf(connector, where)
    browser = TopicBrowser(conf, topic or connector.topic)

    def is_shown(record: TopicRecord) -> bool:
        return not is_mark(record) and DeadLetter.of(browser.topic, record).connector in (name, None)

    if is_from_beginning or not limit:
        records = list(islice(filter(is_shown, browser.read(browser.ranges)), limit or None))
    else:
        records = browser.newest(limit, is_shown)
    bookmark = Bookmark(conf, progress_name(name), browser.topic)
    handled = ResendProgress(name, browser, bookmark).peek()
    dead_letters = [DeadLetter.of(browser.topic, record) for record in records]
    for dead_letter in dead_letters:
        record = dead_letter.record
        is_mine = dead_letter.connector == name
        is_sent_again = is_mine and handled.get(record.partition, Handled(0)).has(record.offset)
        if as_json:
            print_json(to_json(dead_letter, is_sent_again=is_sent_again))
        else:
            typer.echo("\n".join([*lines(dead_letter, is_sent_again=is_sent_again), ""]))
    if not as_json:
        typer.echo(summary(dead_letters, browser.topic, name))


def send_again(name: str, where: Where, *, topic: str | None, is_confirmed: bool, skipped: Sequence[str] = ()) -> None:
    """Resend those dead letters of a sink that were not resent yet, after the user has agreed. Raises as `show` does.

    `skipped`: dead letters, by their places, and topics that dead letters came from; these are passed over.
    """
    connector = connector_at(where.connect, name)
    _ensure_can_be_sent(connector)
    conf = reader_conf(connector, where)
    group = progress_name(name)
    browser = TopicBrowser(conf, topic or connector.topic)
    bookmark = Bookmark(conf, group, browser.topic)
    own_topic = (connector.config.get(RESEND) or "").strip()
    resend = Resend(name, browser, bookmark, own_topic, Skipped.of(browser.topic, skipped))
    survey = resend.survey()
    targets = survey.targets
    if not own_topic:
        with closing(Admin(conf, timeout_s=ASK_S)) as admin:
            survey.ensure_have_somewhere_to_go(name, admin.topics.partitions)
    if not targets and not survey.skipped:
        typer.echo(f"No dead letters of {name} in {browser.topic} wait to be sent again")
        return
    if survey.skipped:
        typer.echo(f"Passed and never sent again: {survey.skipped}")
    if not targets:
        pass
    elif own_topic:
        typer.echo(f"To {own_topic}, which {name} reads: {_listed(targets)}")
    else:
        typer.echo(f"To their original topics, for every consumer there and not only {name}: {_listed(targets)}")
        typer.echo(f"(With {RESEND} in its config they would go to {name} alone.)")
    if not is_confirmed:
        typer.confirm("Send them?" if targets else "Pass over them?", abort=True)
    with counting("Sending", survey.total) as committed:
        sent = resend.send(transactional_conf(where.client(connector.config), group).conf, committed)
    typer.echo(f"Sent again: {sent}")


def _listed(targets: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of topic {topic}" for topic, count in sorted(targets.items()))


def _ensure_can_be_sent(connector: DescribedConnector) -> None:
    if connector.kind != "sink":
        raise ConfigError(
            f"{connector.name} is a {connector.kind}: its dead letters describe records as JSON, and cannot be sent "
            "again as they were. Fix the cause of the errors, stop the connector, set its offsets to before these "
            f"records (PATCH /connectors/{connector.name}/offsets; each dead letter has its source partition and "
            "offset), and resume it. All later records are then delivered again, too"
        )
    reads, writes = (connector.config.get(f"{client}.override.{BOOTSTRAP}") for client in ("consumer", "producer"))
    if {*names_in(reads)} != {*names_in(writes)}:
        raise ConfigError(
            f"{connector.name} reads from a different Kafka (consumer.override.{BOOTSTRAP}={reads}) than the one with "
            f"its dead letters (producer.override.{BOOTSTRAP}={writes}): one transaction cannot span both"
        )
