"""Finds which columns of its source a frame needs: Spark does not report them to a source written in Python."""

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.spark.row.kafka_columns import written


def unknown_rows(session: Any, types: Mapping[str, str]) -> Any:
    """Return a frame with these columns, about whose rows the optimiser knows nothing. It cannot be read."""
    return session.createDataFrame(session.sparkContext.emptyRDD(), written(types))


def needed(frame: Any) -> set[str]:
    """Return the columns that a frame's rows depend on, by the names in its leaves.

    Raises any error of Spark or of the access to its plans; then the columns are not known.
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
