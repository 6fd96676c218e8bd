"""Conformance classes: derive a test class from the one of your kind, say what your connector is, and run pytest.

`SourceConformance`, `SinkConformance`, `StreamConformance`, `DataFrameSourceConformance` and `DataFrameSinkConformance`
run a connector in this process without Kafka, with the runtime's own contexts and formats of offsets;
`TransformConformance` runs a transform. What a check found is an AssertionError in the words of the contract. A check
that does not apply is skipped.
"""

from fencepost.testing.conformance.dataframe import DataFrameSinkConformance, DataFrameSourceConformance
from fencepost.testing.conformance.sink import SinkConformance, StreamConformance
from fencepost.testing.conformance.source import SourceConformance
from fencepost.testing.conformance.transform import TransformConformance

__all__ = [
    "DataFrameSinkConformance",
    "DataFrameSourceConformance",
    "SinkConformance",
    "SourceConformance",
    "StreamConformance",
    "TransformConformance",
]
