"""Traces of batches (OpenTelemetry): settings of the worker, under OpenTelemetry's own names.

The names are those that its SDK for Java takes as properties; in upper case, with underscores, they are the variables
that all SDKs know.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

from fencepost.config.check import at_least, between, one_of, parsed_by
from fencepost.config.setting import LOW, MEDIUM, Config, Secret, Type, setting
from fencepost.guide import guide

_OTLP = "otel.exporter.otlp."
_PROTOCOL = "http/protobuf"
_SAMPLERS = (
    "always_on", "always_off", "traceidratio",
    "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
)  # fmt: skip


def _http_url(text: str) -> None:
    if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).hostname:
        raise ValueError("must be an http or https URL")


def _pairs(texts: list[str]) -> None:
    if any(not name.strip() or not separator for name, separator, _ in (text.partition("=") for text in texts)):
        raise ValueError("must be name=value, separated by commas")


_URL = parsed_by(_http_url, "an http or https URL")


class CollectorConfig(Config):
    """Where spans go: OTLP over HTTP."""

    otel_endpoint: str = setting(
        "otel.exporter.otlp.endpoint",
        default="http://localhost:4318",
        check=_URL,
        importance=MEDIUM,
        doc="The collector, as executors and the worker reach it; spans go to `/v1/traces` below it.",
    )
    otel_traces_endpoint: str | None = setting(
        "otel.exporter.otlp.traces.endpoint", default=None, check=_URL, importance=LOW, doc="The full URL for spans."
    )
    otel_protocol: str = setting(
        "otel.exporter.otlp.protocol",
        default=_PROTOCOL,
        importance=LOW,
        doc=f"How spans are sent: nothing but `{_PROTOCOL}`.",
    )
    otel_headers: Secret | None = setting(
        "otel.exporter.otlp.headers",
        default=None,
        importance=LOW,
        doc="Headers of the requests to the collector, such as a key: `name=value`, separated by commas.",
    )
    otel_timeout_ms: int = setting(
        "otel.exporter.otlp.timeout",
        default=10_000,
        type=Type.INT,
        check=at_least(1),
        importance=LOW,
        doc="How long a request to the collector may take, with its retries, in milliseconds.",
    )
    otel_certificate: str | None = setting(
        "otel.exporter.otlp.certificate",
        default=None,
        importance=LOW,
        doc="PEM file, on executors, with the authority of the collector's certificate; unset: their system's.",
    )

    @property
    def spans_url(self) -> str:
        """Return where spans are sent."""
        return self.otel_traces_endpoint or f"{self.otel_endpoint.rstrip('/')}/v1/traces"


class TracingConfig(CollectorConfig):
    """Whether tasks send traces to a collector, and which. Needs the extra `otel`."""

    otel_exporter: str = setting(
        "otel.traces.exporter",
        default="none",
        check=one_of("none", "otlp", ignore_case=False),
        importance=MEDIUM,
        doc=f"`otlp`: tasks send spans of their batches to a collector ({guide('how-to/trace')}), and records that "
        "sources write get a `traceparent` header. The other settings that begin with `otel.` may also be given as "
        "OpenTelemetry's variables in the worker's environment, such as `OTEL_EXPORTER_OTLP_ENDPOINT`; the file wins.",
    )
    otel_service_name: str = setting(
        "otel.service.name", default="fencepost", importance=LOW, doc="The name of the service in traces."
    )
    otel_resource_attributes: list[str] = setting(
        "otel.resource.attributes",
        default=[],
        check=parsed_by(_pairs, "name=value, separated by commas"),
        importance=LOW,
        doc="More attributes of the resource, such as `deployment.environment.name=production`.",
    )
    otel_sampler: str = setting(
        "otel.traces.sampler",
        default="parentbased_always_on",
        check=one_of(*_SAMPLERS, ignore_case=False),
        importance=LOW,
        doc="Which batches are traced.",
    )
    otel_sampler_arg: float = setting(
        "otel.traces.sampler.arg",
        default=1.0,
        check=between(0, 1),
        importance=LOW,
        doc="The share of batches that a `traceidratio` sampler takes.",
    )
    otel_queue_size: int = setting(
        "otel.bsp.max.queue.size",
        default=2_048,
        type=Type.INT,
        check=between(1, 1_000_000),
        importance=LOW,
        doc="How many spans of a slot wait for the collector; more are dropped, and counted.",
    )
    otel_delay_ms: int = setting(
        "otel.bsp.schedule.delay",
        default=5_000,
        type=Type.INT,
        check=at_least(1),
        importance=LOW,
        doc="How long a span waits for others at most, in milliseconds.",
    )

    @property
    def is_traced(self) -> bool:
        return self.otel_exporter == "otlp"

    @property
    def resource(self) -> dict[str, str]:
        """Return the given attributes of the resource. Values are URL-encoded, as OpenTelemetry says."""
        pairs = (text.partition("=") for text in self.otel_resource_attributes)
        return {name.strip(): unquote(value.strip()) for name, _, value in pairs}

    def tracing_fault(self) -> str | None:
        """Return why nothing can be traced; None if it can."""
        if not self.is_traced:
            return None
        if self.otel_protocol != _PROTOCOL:
            return (
                f"Invalid value {self.otel_protocol} for configuration {TracingConfig.key_of('otel_protocol')}: spans "
                f"are sent by {_PROTOCOL}; set that, and an endpoint that takes it, usually at port 4318"
            )
        if "@" in self.spans_url or "?" in self.spans_url:
            endpoint, headers = TracingConfig.key_of("otel_endpoint"), TracingConfig.key_of("otel_headers")
            return f"{endpoint}: logs show it, so it has no credentials and no query; send them in {headers}"
        if _is_installed():
            return None
        key = TracingConfig.key_of("otel_exporter")
        return (
            f"{key}: it needs libraries that are not installed: `pip install 'fencepost[otel]'` on the worker and on "
            "all executors"
        )


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:  # of its package
        return False


def of_environment(properties: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that OpenTelemetry's variables give, if the file asks for traces and does not have them.

    A variable for traces alone, such as OTEL_EXPORTER_OTLP_TRACES_HEADERS, comes before that for all signals.
    """
    switch, base, full = map(TracingConfig.key_of, ("otel_exporter", "otel_endpoint", "otel_traces_endpoint"))
    if properties.get(switch, "none").strip() == "none":
        return {}
    found: dict[str, str] = {}
    for key in TracingConfig.settings():
        names = [_variable(key)]
        if key.startswith(_OTLP) and key not in (base, full):
            names.insert(0, _variable(f"{_OTLP}traces.{key.removeprefix(_OTLP)}"))
        given = [environment[name] for name in names if environment.get(name)]  # an empty one counts as unset
        if given and key not in properties:
            found[key] = given[0]
    if base in properties:  # the file says where the collector is
        found.pop(full, None)
    return found


def _variable(key: str) -> str:
    return key.upper().replace(".", "_")
