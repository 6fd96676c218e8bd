"""Metrics under the names that the JMX exporter's usual rules give them, and that dashboards of Kafka Connect read.

The rules are those of Confluent's jmx-monitoring-stacks. What JMX has as text is a label there, and the value is 1.
Newer exporters leave out `_info` and `_total` at the end of what is no counter to them, so some names come twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from fencepost import KAFKA_CONNECT_VERSION
from fencepost.config.reference import RawConfig
from fencepost.kafka.group.member_figures import MemberFigures
from fencepost.spark.session.jvm import JvmFigures

_REBALANCES = "kafka_connect_connect_worker_rebalance_metrics"
_CLIENT = "kafka_connect_connect_metrics"
_CONNECTOR = "kafka_connect_connector_metrics"
_APP = "kafka_connect_app"
_RATE = "a second, over the last windows (metrics.sample.window.ms, metrics.num.samples)"
_OF_GROUP = "of the client with which this worker is a member of its group"


@dataclass(frozen=True)
class ExporterFigures:
    """What these metrics are made from. `client_id` is that of the worker's member in its group.

    `version_of(config)` returns the type of a connector and the version of its class, empty if it is not installed.
    """

    client_id: str = ""
    started_ms: int = 0
    version_of: Callable[[RawConfig], tuple[str, str]] = lambda _: ("unknown", "")
    member: Callable[[], MemberFigures] = MemberFigures
    jvm: Callable[[], JvmFigures | None] = field(default=lambda: None)


def of_connectors(texts: Iterable[tuple[str, Mapping[str, str]]]) -> Metric:
    """Return a sample for each attribute of each connector that is a text in JMX."""
    text = "1; the label beside the connector says its status, type, class or version."
    family = GaugeMetricFamily(_CONNECTOR, text)
    for name, attributes in texts:
        for attribute, value in attributes.items():
            family.add_sample(_CONNECTOR, {"connector": name, attribute: value}, 1)
    return family


def of_worker(figures: ExporterFigures) -> Iterator[Metric]:
    """Yield what is known of the worker as a program, a member of its group and the owner of a JVM."""
    yield from _app(figures)
    member = figures.member()
    yield from _rebalances(member)
    yield from _client(figures.client_id, member)
    yield from _jvm(figures.jvm())


def _app(figures: ExporterFigures) -> Iterator[Metric]:
    text = "1; the label beside the client says the Kafka Connect whose API this is, or when the worker started."
    for name in (_APP, f"{_APP}_info"):
        family = GaugeMetricFamily(name, text)
        for label, value in (("version", KAFKA_CONNECT_VERSION), ("start_time_ms", str(figures.started_ms))):
            family.add_sample(name, {"client_id": figures.client_id, label: value}, 1)
        yield family


def _rebalances(member: MemberFigures) -> Iterator[Metric]:
    name, text = f"{_REBALANCES}_completed_rebalances", "Rebalances of the workers' group that this worker has been in"
    yield CounterMetricFamily(name, f"{text}.", member.rebalances)
    yield GaugeMetricFamily(name, f"{text}; the name that newer JMX exporters give the total.", member.rebalances)
    if member.since_last_s is not None:
        yield GaugeMetricFamily(
            f"{_REBALANCES}_time_since_last_rebalance_ms",
            "The time since the last rebalance of the workers' group, in milliseconds.",
            round(1000 * member.since_last_s),
        )
    exactly = "in milliseconds, since the worker started; known to a second"
    yield GaugeMetricFamily(
        f"{_REBALANCES}_rebalance_avg_time_ms",
        f"The mean of the rebalances of the workers' group, {exactly}.",
        1000 * member.rebalance_mean_s,
    )
    yield GaugeMetricFamily(
        f"{_REBALANCES}_rebalance_max_time_ms",
        f"The longest rebalance of the workers' group, {exactly}.",
        1000 * member.rebalance_max_s,
    )


def _client(client_id: str, member: MemberFigures) -> Iterator[Metric]:
    rates = member.rates
    values = {
        "connection_count": (f"Open connections {_OF_GROUP}.", float(member.connections)),
        "request_rate": (f"Requests {_OF_GROUP}, {_RATE}.", rates["tx"]),
        "response_rate": (f"Responses {_OF_GROUP}, {_RATE}.", rates["rx"]),
        "network_io_rate": (f"Requests and responses {_OF_GROUP}, {_RATE}.", rates["tx"] + rates["rx"]),
        "outgoing_byte_rate": (f"Bytes sent {_OF_GROUP}, {_RATE}.", rates["tx_bytes"]),
        "incoming_byte_rate": (f"Bytes received {_OF_GROUP}, {_RATE}.", rates["rx_bytes"]),
    }
    for attribute, (text, value) in values.items():
        family = GaugeMetricFamily(f"{_CLIENT}_{attribute}", text, labels=("client_id",))
        family.add_metric([client_id], value)
        yield family


def _jvm(jvm: JvmFigures | None) -> Iterator[Metric]:
    """Yield the names of old and new JMX exporters. They are of the JVM of Spark's driver, which moves no records."""
    found = jvm or JvmFigures({}, {}, {})
    for names, text, values in (
        (("jvm_memory_bytes_used", "jvm_memory_used_bytes"), "Memory in use in Spark's JVM, in bytes.", found.used),
        (("jvm_memory_bytes_max", "jvm_memory_max_bytes"), "The most memory that Spark's JVM takes.", found.maximum),
    ):
        for name in names:
            family = GaugeMetricFamily(name, text, labels=("area",))
            for area, value in values.items():
                family.add_metric([area], value)
            yield family
    summary = SummaryMetricFamily(
        "jvm_gc_collection_seconds", "Garbage collections of Spark's JVM, in seconds.", labels=("gc",)
    )
    for name, (count, total_s) in found.collections.items():
        summary.add_metric([name], count, total_s)
    yield summary
