"""Shows records that a connector could not process."""

import json
from itertools import islice

import typer

from fencepost.cli.dead_letters.connector import Where, connector_at, reader_conf
from fencepost.cli.dead_letters.output import lines, summary, to_json
from fencepost.cli.dead_letters.over_rest import newest_letters
from fencepost.dead_letter.letter import DeadLetter
from fencepost.dead_letter.progress import Handled, ResendProgress, is_mark, progress_name
from fencepost.kafka.read.bookmark import Bookmark
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord


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
    with Bookmark(conf, progress_name(name), browser.topic) as bookmark:
        handled = ResendProgress(name, browser, bookmark).peek()
    dead_letters = [DeadLetter.of(browser.topic, record) for record in records]
    for dead_letter in dead_letters:
        record = dead_letter.record
        is_mine = dead_letter.connector == name
        is_sent_again = is_mine and handled.get(record.partition, Handled(0)).has(record.offset)
        if as_json:
            typer.echo(json.dumps(to_json(dead_letter, is_sent_again=is_sent_again), ensure_ascii=False))
        else:
            typer.echo("\n".join([*lines(dead_letter, is_sent_again=is_sent_again), ""]))
    if not as_json:
        typer.echo(summary(dead_letters, browser.topic, name))
