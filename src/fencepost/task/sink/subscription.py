"""What a sink's task reads: topics by name, or those whose names match."""

from collections.abc import Callable, Sequence

from fencepost.task.spec import TaskSpec
from fencepost.transform.java_regex import compiled


def subscription(spec: TaskSpec) -> Sequence[str] | Callable[[str], object]:
    """Return what a task reads: names, or what says of a name whether it is meant."""
    own = (spec.resend_topic,) if spec.resend_topic else ()
    if not spec.topics_regex:
        return (*spec.topics, *own)
    is_meant = compiled(spec.topics_regex).fullmatch
    return lambda topic: topic in own or is_meant(topic)
