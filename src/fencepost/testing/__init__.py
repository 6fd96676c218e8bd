"""What authors of connectors test with, as Fencepost's own tests do.

Without Kafka: `SourceConformance`, `SinkConformance` and `StreamConformance` check a connector against the contract of
its kind, `DataFrameSourceConformance` and `DataFrameSinkConformance` do so with a Spark session, and
`TransformConformance` checks a transform; `poll_once`, `SourceRun`, `SinkRun` and `StreamRun` run a task step by step.
With a real Kafka: `Pipeline` runs a connector's tasks in a process that may be killed, `TestingSource` follows a script
of records and crashes, `CommittedReader` reads what a consumer sees, and `judge` is the only verdict on a delivery.
Nothing here waits for ever, and an error contains what it waited for. Kafka is never imitated.
"""

from fencepost.testing.conformance import (
    DataFrameSinkConformance,
    DataFrameSourceConformance,
    SinkConformance,
    SourceConformance,
    StreamConformance,
    TransformConformance,
)
from fencepost.testing.pipeline import Pipeline
from fencepost.testing.reader import CommittedReader
from fencepost.testing.sink_run import SinkRun, StreamRun, log_of
from fencepost.testing.source import (
    COMMIT,
    CRASH,
    DEAF,
    HANG,
    POLL,
    RAISE,
    RETRY,
    UPDATE_OFFSETS,
    ScriptedRecord,
    TestingSource,
)
from fencepost.testing.source_run import OffsetStore, SourceRun, poll_once
from fencepost.testing.verdict import Observation, Sighting, Verdict, eventually, judge

__all__ = [
    "COMMIT",
    "CRASH",
    "DEAF",
    "HANG",
    "POLL",
    "RAISE",
    "RETRY",
    "UPDATE_OFFSETS",
    "CommittedReader",
    "DataFrameSinkConformance",
    "DataFrameSourceConformance",
    "Observation",
    "OffsetStore",
    "Pipeline",
    "ScriptedRecord",
    "Sighting",
    "SinkConformance",
    "SinkRun",
    "SourceConformance",
    "SourceRun",
    "StreamConformance",
    "StreamRun",
    "TestingSource",
    "TransformConformance",
    "Verdict",
    "eventually",
    "judge",
    "log_of",
    "poll_once",
]
