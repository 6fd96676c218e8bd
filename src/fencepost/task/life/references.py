"""Looks up what the configs of a task refer to, in the process that runs the task."""

from dataclasses import replace
from typing import Any

from fencepost.reference import providers_of
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.life.plugins import use_plugins

_SAME_START_S = 10.0


def resolved(spec: TaskSpec) -> TaskSpec:
    """Return the spec with values in place of references.

    Raises ConfigError if one cannot be looked up here, RetriableError if a store is away.
    """
    references = spec.look_up.references
    if references is None:
        return spec
    use_plugins(spec)
    providers = providers_of(references.providers)
    connector = providers.look_up(references.connector_config)
    task = providers.look_up(references.task_config, _SAME_START_S)
    connector_config, task_config = connector.require(), task.require()
    values = tuple({**connector.found, **task.found}.values())  # clients refer to nothing else
    parts: dict[str, dict[str, Any]] = {"output": {}, "input": {}}
    for recipe in references.clients:
        part, _, name = recipe.place.partition(".")
        made = recipe.translated(lambda own: providers.look_up(own, _SAME_START_S).require())
        parts[part][name] = made.conf
    return replace(
        spec,
        connector_config={**spec.connector_config, **connector_config},
        task_config={**spec.task_config, **task_config},
        look_up=replace(spec.look_up, references=replace(references, values=values)),
        output=replace(spec.output, **parts["output"]),
        input=replace(spec.input, **parts["input"]),
    )


def client_settings(spec: TaskSpec) -> dict[str, str]:
    """Return the settings of all Kafka clients in a spec that are text; each name comes with the client's."""
    confs = {
        "producer": spec.output.producer_conf,
        "admin": spec.output.admin_conf,
        "consumer": spec.input.consumer_conf,
        "reader": spec.input.reader_conf,
    }
    return {
        f"{client}.{key}": value
        for client, conf in confs.items()
        for key, value in conf.items()
        if isinstance(value, str)
    }
