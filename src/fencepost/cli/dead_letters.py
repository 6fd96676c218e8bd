"""`fencepost dead-letters`: shows records that a connector could not process, and resends those of a sink."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import typer

from fencepost.cli.client import BOOTSTRAP, client_properties
from fencepost.cli.letter import Letter, summary
from fencepost.cli.resend import Resend, Skipped
from fencepost.cli.resend_progress import ResendProgress, is_mark, progress_name
from fencepost.config import ConfigError
from fencepost.config.connector import DeadLetterConfig, SinkChoice
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.read.bookmark import Bookmark
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.kafka.setting.client_settings import admin_conf, range_conf, transactional_conf

_TOPIC = DeadLetterConfig.key_of("dead_letters_topic")
_RESEND = SinkChoice.key_of("resend_topic")
_READER = "fencepost-dead-letters"  # a group without commits
_REST_S = 30.0
_ASK_S = 10.0
_NAME_IT = "set the worker's brokers with --bootstrap, or its file with --properties"


@dataclass(frozen=True)
class Where:
    """The addresses of a worker's REST API and its Kafka.

    `properties`: a file of client settings, or the worker's own.
    """

    url: str
    properties: Path | None = None
    bootstrap: str | None = None

    def client(self, connector: Mapping[str, str]) -> dict[str, str]:
        """Return the client settings for a connector's dead letters, which are where its producers write."""
        return client_properties(self.properties, self.bootstrap, connector.get(f"producer.override.{BOOTSTRAP}"))


@dataclass(frozen=True)
class Connector:
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


def connector_at(url: str, name: str) -> Connector:
    """Ask a worker. Raises ConfigError, with the next step."""
    try:
        with httpx.Client(base_url=url, timeout=_REST_S, follow_redirects=True) as rest:
            answer = rest.get(f"/connectors/{quote(name, safe='')}")
            cluster_id = str(rest.get("/").json().get("kafka_cluster_id", ""))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise ConfigError(f"--url {url}: no worker answers ({error}); set it to a worker's REST address") from None
    if answer.status_code == httpx.codes.NOT_FOUND:
        raise ConfigError(f"There is no connector {name} on the workers at {url}")
    if answer.is_error:
        raise ConfigError(f"--url {url}: {answer.status_code} {answer.text[:200]}")
    found = answer.json()
    return Connector(name, str(found.get("type")), found["config"], cluster_id)


def show(name: str, where: Where, *, topic: str | None, limit: int, is_from_beginning: bool, as_json: bool) -> None:
    """Print dead letters. Raises ConfigError, or Kafka's errors."""
    connector = connector_at(where.url, name)
    conf = _reader(connector, where)
    browser = TopicBrowser(conf, topic or connector.topic)

    def is_shown(record: TopicRecord) -> bool:
        return not is_mark(record) and Letter.of(browser.topic, record).connector in (name, None)

    if is_from_beginning or not limit:
        records = list(islice(filter(is_shown, browser.read(browser.ranges)), limit or None))
    else:
        records = browser.newest(limit, is_shown)
    with Bookmark(conf, progress_name(name), browser.topic) as bookmark:
        passed = ResendProgress(name, browser, bookmark).read()
    letters = [Letter.of(browser.topic, record) for record in records]
    for letter in letters:
        is_sent_again = bool(letter.origin) and letter.record.offset < passed.get(letter.record.partition, 0)
        if as_json:
            typer.echo(json.dumps(letter.to_json(is_sent_again=is_sent_again), ensure_ascii=False))
        else:
            typer.echo("\n".join([*letter.lines(is_sent_again=is_sent_again), ""]))
    if not as_json:
        typer.echo(summary(letters, browser.topic, name))


def send_again(name: str, where: Where, *, topic: str | None, is_confirmed: bool, skipped: Sequence[str] = ()) -> None:
    """Resend those dead letters of a sink that were not resent yet, after the user has agreed. Raises as `show` does.

    `skipped`: dead letters, by their places, and topics that dead letters came from; these are passed over.
    """
    connector = connector_at(where.url, name)
    _ensure_can_be_sent(connector)
    conf = _reader(connector, where)
    group = progress_name(name)
    browser = TopicBrowser(conf, topic or connector.topic)
    with Bookmark(conf, group, browser.topic) as bookmark:
        own_topic = (connector.config.get(_RESEND) or "").strip()
        resend = Resend(name, browser, bookmark, own_topic, Skipped.of(skipped))
        targets, skips = resend.targets(), resend.skips()
        _ensure_have_somewhere_to_go(resend, targets, conf)
        if not targets and not skips:
            typer.echo(f"No dead letters of {name} in {browser.topic} wait to be sent again")
            return
        if skips:
            typer.echo(f"Passed and never sent again: {skips}")
        if not targets:
            pass
        elif own_topic:
            typer.echo(f"To {own_topic}, which {name} reads: {_listed(targets)}")
        else:
            typer.echo(f"To their original topics, for every consumer there and not only {name}: {_listed(targets)}")
            typer.echo(f"(With {_RESEND} in its config they would go to {name} alone.)")
        if not is_confirmed:
            typer.confirm("Send them?" if targets else "Pass over them?", abort=True)
        sent = resend.send(transactional_conf(where.client(connector.config), group).conf)
        typer.echo(f"Sent again: {sent}")


def _ensure_have_somewhere_to_go(resend: Resend, targets: Mapping[str, int], conf: Mapping[str, Any]) -> None:
    """Raise ConfigError, with the next step, if dead letters came from topics or partitions that do not exist now."""
    admin = Admin(conf, timeout_s=_ASK_S)
    nowhere = resend.nowhere({topic: None if resend.own_topic else admin.partitions(topic) for topic in targets})
    if not nowhere:
        return
    texts = [
        f"{len(places)} of {what} ({', '.join(places[:3])}{', …' if len(places) > 3 else ''})"
        for what, places in sorted(nowhere.items())
    ]
    raise ConfigError(
        f"Dead letters of {resend.connector} came from topics or partitions that do not exist any more: "
        f"{'; '.join(texts)}. Nothing is sent. Create what is missing, give the sink its own topic ({_RESEND}), or "
        "pass over them permanently: --skip TOPIC passes over all dead letters that came from a topic, --skip LETTER "
        f"over one, as in --skip {next(iter(nowhere.values()))[0]}"
    )


def _listed(targets: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of topic {topic}" for topic, count in sorted(targets.items()))


def _ensure_can_be_sent(connector: Connector) -> None:
    if connector.kind != "sink":
        raise ConfigError(
            f"{connector.name} is a {connector.kind}: its dead letters describe records as JSON, and cannot be sent "
            "again as they were. Fix the cause of the errors, stop the connector, set its offsets to before these "
            f"records (PATCH /connectors/{connector.name}/offsets; each dead letter has its source partition and "
            "offset), and resume it. All later records are then delivered again, too"
        )
    reads, writes = (connector.config.get(f"{client}.override.{BOOTSTRAP}") for client in ("consumer", "producer"))
    if reads != writes:
        raise ConfigError(
            f"{connector.name} reads from a different Kafka (consumer.override.{BOOTSTRAP}={reads}) than the one with "
            f"its dead letters (producer.override.{BOOTSTRAP}={writes}): one transaction cannot span both"
        )


def _reader(connector: Connector, where: Where) -> dict[str, Any]:
    """Return the settings to read dead letters. Raises ConfigError if the brokers are not the worker's cluster."""
    properties = where.client(connector.config)
    try:
        cluster_id = Admin(admin_conf(properties).conf, timeout_s=_ASK_S).cluster_id()
    except KafkaUnavailableError as error:
        raise ConfigError(f"{error}; {_NAME_IT}") from None
    is_elsewhere = f"producer.override.{BOOTSTRAP}" in connector.config
    if connector.cluster_id and cluster_id != connector.cluster_id and not is_elsewhere:
        raise ConfigError(
            f"The Kafka at {properties[BOOTSTRAP]} is {cluster_id}, but that of the worker at {where.url} is "
            f"{connector.cluster_id}: {_NAME_IT}"
        )
    return dict(range_conf({**properties, "isolation.level": "read_committed"}, _READER).conf)
