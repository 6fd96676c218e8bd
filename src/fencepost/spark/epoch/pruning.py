"""Which columns of its source a frame needs: Spark knows, and does not tell a source that is written in Python."""

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.spark.row.kafka_columns import written


def unknown_rows(session: Any, types: Mapping[str, str]) -> Any:
    """Return a frame with such columns, of whose rows the optimiser knows nothing; it is not for reading."""
    return session.createDataFrame(session.sparkContext.emptyRDD(), written(types))


def needed(frame: Any) -> set[str]:
    """Return the names of the columns that a frame's rows depend on, as its leaves have them.

    Raises whatever Spark and the way to its plans do: then nothing is known.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    nodes = list(_nodes(plan))
    used = [plan.outputSet(), *(node.references() for node in nodes)]
    leaves = [column for node in nodes if node.children().isEmpty() for column in _each(node.output())]
    return {str(column.name()) for column in leaves if any(each.contains(column) for each in used)}


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(i) for i in range(sequence.length()))
