"""A few real records: what a source polls, and what is in the topics of a sink. Nothing is committed or written."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.api import FatalError, SourceRecord
from fencepost.api.hosted_task import KnowsSettings
from fencepost.cli.plan.pipeline import reason
from fencepost.cluster.topic_records import RecordQuery
from fencepost.config import ConfigError
from fencepost.config.raw import names_in
from fencepost.kafka.read.browse import TopicBrowser, TopicRecord
from fencepost.telemetry.secret import hide
from fencepost.testing.source_run import SourceRun
from fencepost.worker.connector_classes import is_mirror
from fencepost.worker.operation.connector.record_page import read_page

_LONGEST_S = 30.0
_ASK_S = 8.0


def ensure_startable(connector: type[Any]) -> None:
    """Raise ConfigError for a source that is not started for a plan."""
    if isinstance(connector, KnowsSettings):
        raise ConfigError(
            f"{connector.__name__} is a Java class, and is not started for a plan: it may change the system that it "
            "reads, as Debezium's connectors create a replication slot"
        )
    if getattr(connector, "is_dataframe", False):
        raise ConfigError(f"{connector.__name__} is read by Spark, in a worker: its rows are not read for a plan")
    if is_mirror(connector):
        raise ConfigError(f"{connector.__name__} plans with other workers, and is not started for a plan")


def polled(connector: type[Any], config: Mapping[str, str], count: int) -> list[SourceRecord]:
    """Return records that the source's first task polls, from its beginning.

    Raises ConfigError for what it says of the config, and FatalError if it fails, or has not polled in time.
    """
    found: list[SourceRecord] = []
    failures: list[BaseException] = []

    def poll() -> None:
        try:
            run = SourceRun(connector, dict(config))
            try:
                found.extend(run.read(count)[:count])
            finally:
                run.stop()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=poll, name="plan", daemon=True)
    thread.start()
    thread.join(_LONGEST_S)
    if failures:
        if isinstance(failures[0], ConfigError):
            raise failures[0]
        raise FatalError(f"{connector.__name__} failed: {hide(reason(failures[0]))}") from None
    if thread.is_alive():
        raise FatalError(
            f"{connector.__name__} did not poll {count} record{'' if count == 1 else 's'} within {_LONGEST_S:g} s"
        )
    return found


def newest(conf: Mapping[str, Any], config: Mapping[str, str], count: int) -> Iterator[tuple[str, TopicRecord]]:
    """Yield the newest records of the topics that a config names. Raises ConfigError and the errors of Kafka."""
    topics = names_in(config.get("topics"))
    if not topics:
        raise ConfigError("topics is missing: a plan reads the topics that it names, and none of a topics.regex")
    for topic in topics:
        browser = TopicBrowser(conf, topic, timeout_s=_ASK_S)
        for record in read_page(browser, conf, RecordQuery(limit=count)).records:
            yield topic, record
