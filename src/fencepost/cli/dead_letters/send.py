"""Resends the dead letters of a sink, after the user has agreed."""

from collections.abc import Mapping, Sequence
from contextlib import closing

import typer

from fencepost.cli.client import BOOTSTRAP
from fencepost.cli.dead_letters.connector import ASK_S, DescribedConnector, Where, connector_at, reader_conf
from fencepost.cli.progress import counting
from fencepost.config import ConfigError
from fencepost.config.raw import names_in
from fencepost.dead_letter.choice import Skipped
from fencepost.dead_letter.progress import progress_name
from fencepost.dead_letter.resend import Resend
from fencepost.dead_letter.survey import RESEND
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.bookmark import Bookmark
from fencepost.kafka.read.browse import TopicBrowser
from fencepost.kafka.setting.client_settings import transactional_conf


def send_again(name: str, where: Where, *, topic: str | None, is_confirmed: bool, skipped: Sequence[str] = ()) -> None:
    """Resend those dead letters of a sink that were not resent yet, after the user has agreed. Raises as `show` does.

    `skipped`: dead letters, by their places, and topics that dead letters came from; these are passed over.
    """
    connector = connector_at(where.connect, name)
    _ensure_can_be_sent(connector)
    conf = reader_conf(connector, where)
    group = progress_name(name)
    browser = TopicBrowser(conf, topic or connector.topic)
    with Bookmark(conf, group, browser.topic) as bookmark:
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
