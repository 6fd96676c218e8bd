"""What `poll` returned, as batches; and in the author's words what is wrong with anything else."""

from collections.abc import Mapping
from typing import Any

from fencepost.api import Batch, FatalError, SourceRecord

_RIGHT = (
    "return Batch.of_rows(rows, topic=..., source_partition=..., offset=...), a list of SourceRecord, or None if there "
    "is nothing now"
)


def in_batches(polled: Any, task: str) -> tuple[list[SourceRecord] | None, list[Batch]]:
    """Return the author's own records, or None if `poll` did not return records; and all of it as batches.

    `task` names the task's class in errors. Raises FatalError for anything that is no records.
    """
    match polled:
        case None:
            return None, []
        case Batch():  # columns, or whole batches
            return None, [polled]
        case SourceRecord():
            raise FatalError(f"poll() of {task} returned a single SourceRecord: return a list, [record]")
        case Mapping():
            raise FatalError(f"poll() of {task} returned a single row: {_RIGHT}")
        case str() | bytes():
            raise FatalError(f"poll() of {task} returned {_described(polled)}: {_RIGHT}")
    try:
        records = list(polled)
    except TypeError:
        raise FatalError(f"poll() of {task} returned {_described(polled)}: {_RIGHT}") from None
    return _of_list(records, task)


def _of_list(records: list[Any], task: str) -> tuple[list[SourceRecord], list[Batch]]:
    # The check of every record costs a twentieth of what is done with each of them anyway.
    wrong = next((n for n, record in enumerate(records) if not isinstance(record, SourceRecord)), None)
    if wrong is None:
        return records, Batch.of_records(records)
    if isinstance(records[wrong], Mapping):
        raise FatalError(f"poll() of {task} returned a list of dicts, which say no topic and no offset: {_RIGHT}")
    raise FatalError(f"poll() of {task} returned a list whose item {wrong} is {_described(records[wrong])}: {_RIGHT}")


def _described(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"{type(value).__name__} {value!r:.60}"
