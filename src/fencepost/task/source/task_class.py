"""What the class of a source's task declares or overrides, and what follows from it for the loop."""

from fencepost.api import Form, SourceTask
from fencepost.api.hosted_task import HostedTask
from fencepost.api.mirror_task import MirrorTask, adds_records
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.finish import GroupPositions
from fencepost.task.life.plugins import config_of, connector_class, given_properties, task_class


def form_of(spec: TaskSpec) -> Form:
    """Return the form in which the task's `poll` returns records."""
    found: Form = connector_class(spec).task.form(config_of(spec))
    return found


def reads_batches(spec: TaskSpec) -> bool:
    """Say whether the task's `poll` returns Kafka's record batches where they can be written as they are."""
    task: type[SourceTask] = connector_class(spec).task
    return issubclass(task, MirrorTask) and task.reads_batches(config_of(spec))


def tracks_records(spec: TaskSpec) -> bool:
    """Say whether the task overrides `commit_record`, and so is called for every record."""
    return task_class(spec).commit_record is not SourceTask.commit_record


def wants_reports(spec: TaskSpec) -> bool:
    """Say whether the producer must report every acknowledged record."""
    task: type[SourceTask] = task_class(spec)
    has_updates = task.update_offsets is not SourceTask.update_offsets
    asks_places = issubclass(task, HostedTask) and task.asks_places
    return adds_records(task) or asks_places or tracks_records(spec) or (has_updates and not spec.is_exactly_once)


def makes_smaller(spec: TaskSpec) -> bool:
    """Say whether transactions can be made smaller, by the task itself or by ending them between its polls."""
    task: type[SourceTask] = connector_class(spec).task
    return task.heeds_transaction_bytes or spec.commits.boundary == "interval"


def group_of(spec: TaskSpec) -> GroupPositions | None:
    """Return how a group keeps the connector's offsets; None if they are not kept in a group."""
    if not spec.output.has_offsets_in_group:
        return None
    held = connector_class(spec)(given_properties(spec)).offsets_in_group(spec.connector)
    return None if held is None else GroupPositions(held)


def runs_ahead(spec: TaskSpec) -> bool:
    """Say whether the next batch may be polled before the last one is committed.

    Never with connector-defined boundaries or a tracking of records. Not if the author acts on commits, unless the
    class allows it (`polls_ahead`).
    """
    if not spec.is_exactly_once or spec.commits.boundary == "connector" or tracks_records(spec):
        return False
    task: type[SourceTask] = task_class(spec)
    if task.polls_ahead is not None:
        return task.polls_ahead
    return task.commit is SourceTask.commit and task.update_offsets is SourceTask.update_offsets
