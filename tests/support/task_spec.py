"""The spec of a task that a test runs by itself, without a worker."""

import uuid
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from fencepost.task.channel.task_spec import CommitSpec, LookUpSpec, OutputSpec, TaskSpec

_STRING = "org.apache.kafka.connect.storage.StringConverter"


def lone_spec(
    connector: str,
    properties: Mapping[str, str],
    *,
    transactional_id: str,
    producer_conf: Mapping[str, Any],
    offsets_topic: str,
    plugins: str,
    lanes: int = 1,
    batch_bytes: int | None = None,
) -> TaskSpec:
    """Return the spec of the only task of `connector`, which writes texts to a topic of the same name.

    `properties` are those of the connector's own; `plugins` is the directory of its class; `producer_conf` may name
    a transactional id, which does not count.
    """
    config = {
        "name": connector,
        "topic": connector,
        "key.converter": _STRING,
        "value.converter": _STRING,
        "header.converter": _STRING,
        **properties,
    }
    return TaskSpec(
        connector=connector,
        task=0,
        generation=1,
        incarnation=uuid.uuid4().hex,
        connector_config=config,
        task_config=config,
        look_up=LookUpSpec((plugins,)),
        output=OutputSpec(
            producer_conf={k: v for k, v in producer_conf.items() if k != "transactional.id"},
            offsets_topic=offsets_topic,
            transactional_id=transactional_id,
            topic_creation_enabled=False,
        ),
        commits=CommitSpec(lanes=lanes, batch_bytes=batch_bytes),
    )


def changed(spec: TaskSpec, **settings: Any) -> TaskSpec:
    """Return the spec with other settings, each in the part of the spec that has it."""
    parts: dict[str, Any] = {"output": spec.output, "commits": spec.commits, "input": spec.input}
    for name, part in parts.items():
        own = {one.name: settings.pop(one.name) for one in fields(part) if one.name in settings}
        parts[name] = replace(part, **own)
    return replace(spec, **{**parts, **settings})
