"""Where a task's spans go, and how many of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.task.channel.codec import Message


@dataclass(frozen=True)
class CollectorSpec(Message):
    """A collector that takes OTLP over HTTP. `endpoint` is the full URL, `headers` are `name=value` with commas."""

    endpoint: str
    headers: str = field(default="", repr=False)  # they may hold a key
    certificate: str = ""
    timeout_ms: int = 10_000


@dataclass(frozen=True)
class TracingSpec(Message):
    """The worker's settings of OpenTelemetry (`fencepost.config.tracing`)."""

    collector: CollectorSpec
    service_name: str = "fencepost"
    resource: Mapping[str, str] = field(default_factory=dict)
    sampler: str = "parentbased_always_on"
    sampler_arg: float = 1.0
    queue_size: int = 2_048
    delay_ms: int = 5_000
