"""SqlStream: a query with state (windows, joins, aggregations, deduplication) between topics, each result once."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from fencepost.api import (
    HIGH,
    ExactlyOnceSupport,
    SinkConnector,
    Type,
    at_least,
    non_empty,
    one_of,
    setting,
    topic_name,
)
from fencepost.config.check import Check, parsed_by
from fencepost.config.connector_limit import a_directory

APPEND, UPDATE = "append", "update"
_COMPLETE = (
    "complete writes the whole result again with each batch, and what is in a topic cannot be replaced: use update, "
    "which writes the rows that have changed"
)
_EDGES = ("earliest", "latest")


def _output_mode() -> Check:
    known = one_of(APPEND, UPDATE)

    def test(value: str) -> str | None:
        return _COMPLETE if value.lower() == "complete" else known(value)

    return Check(test, known.text, known.recommended)


def parse_starts(text: str) -> Mapping[str, Any] | str:
    """Return `earliest` or `latest`, or offsets by topic and partition. Raises ValueError."""
    if text.lower() in _EDGES:
        return text.lower()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ValueError('it must be earliest, latest, or JSON with offsets by topic, as {"orders":{"0":23,"1":-2}}')
    return found


class SqlStream(SinkConnector):
    """Runs a query of Spark's Structured Streaming over topics, and writes its rows to a topic of the same cluster.

    The query's state and its position in the topics are in `checkpoint.location`. One task runs on one worker; another
    worker continues from the checkpoint. Each batch of the query is one transaction.
    """

    is_dataframe: ClassVar[bool] = True

    sql: str = setting(
        "sql", check=non_empty(), importance=HIGH,
        doc="The query. Each topic in `topics` is a table of its name, with the columns of `spark.readStream`: `key`, "
        "`value`, `topic`, `partition`, `offset`, `timestamp` and, if the query names them, `headers`. With "
        "`value.converter` of a registry `value` is a struct; else keys and values are text, or bytes with "
        "ByteArrayConverter. A watermark follows a table: `orders WATERMARK timestamp DELAY OF INTERVAL 10 MINUTES`.",
    )  # fmt: skip
    topic: str = setting("output.topic", check=topic_name(), importance=HIGH, doc="The topic to write to.")
    key_field: str | None = setting(
        "output.key.field", default=None,
        doc="The column of the query that is the key of each row; it stays part of the value. Unset: no key.",
    )  # fmt: skip
    checkpoint: str = setting(
        "checkpoint.location", check=a_directory(non_empty()), importance=HIGH,
        doc="The directory of the query's state and of its position in the topics: of any file system that Spark "
        "knows, the same for all workers and executors, and of this connector only. With another one, which is empty, "
        "the query begins again, at `starting.offsets`; if this one is emptied, the task fails.",
    )  # fmt: skip
    output_mode: str = setting(
        "output.mode", default=APPEND, check=_output_mode(), importance=HIGH,
        doc="`append` writes a row once it cannot change any more, which an aggregation needs a watermark for; "
        "`update` writes each row that a batch has changed.",
    )  # fmt: skip
    trigger_ms: int = setting(
        "trigger.ms", default=500, type=Type.LONG, check=at_least(0),
        doc="The least time between the starts of two batches.",
    )  # fmt: skip
    starting_offsets: str = setting(
        "starting.offsets", default="earliest", check=parsed_by(parse_starts, "earliest, latest, or JSON"),
        doc="Where the query begins if the checkpoint is empty: `earliest`, `latest`, or JSON with an offset for each "
        'partition: `{"orders":{"0":23,"1":-2}}`, where -2 is the earliest and -1 the latest.',
    )  # fmt: skip
    batch_offsets_max: int = setting(
        "batch.offsets.max", default=1_000_000, type=Type.LONG, check=at_least(1),
        doc="The most offsets of each topic in a batch, and so in a transaction.",
    )  # fmt: skip
    commit_group: str | None = setting(
        "commit.group", default=None,
        doc="A consumer group to which each batch also commits how far it has read the topics, in its transaction, for "
        "tools that show lag. It must have no members. The query continues from its checkpoint all the same.",
    )  # fmt: skip

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.SUPPORTED

    def starting(self, topic: str) -> str:
        """Return the value of Spark's option `startingOffsets` for a topic."""
        found = parse_starts(self.starting_offsets)
        return found if isinstance(found, str) else json.dumps({topic: found[topic]}) if topic in found else _EDGES[0]

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Return the properties of one task: Spark divides each batch among its executors."""
        return super().task_configs(1)
