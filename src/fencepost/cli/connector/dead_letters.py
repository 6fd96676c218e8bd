"""`fencepost dead-letters`: shows dead letters, and resends those of sinks."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import typer

from fencepost.cli.client import BOOTSTRAP, client_properties
from fencepost.cli.connect import Connect
from fencepost.cli.connector.letter import lines, newest_letters, summary, to_json
from fencepost.cli.output import counting, print_json
from fencepost.config import ConfigError
from fencepost.config.connector import DeadLetterConfig
from fencepost.config.raw import names_in
from fencepost.dead_letter.letter import DeadLetter, Skipped
from fencepost.dead_letter.progress import Handled, ResendProgress, is_mark, progress_name
from fencepost.dead_letter.resend import RESEND, Resend
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.read.bookmark import Bookmark
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.kafka.setting.client_settings import admin_conf, range_conf, transactional_conf

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
