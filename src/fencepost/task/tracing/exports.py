"""The exports of spans of this process. Nothing of OpenTelemetry is imported unless a task asks for it."""

import logging
import threading
from typing import TYPE_CHECKING

import orjson

from fencepost.task.channel.task_spec import TaskSpec, TracingSpec
from fencepost.task.tracing.tracing import NO_TRACING, Tracing

if TYPE_CHECKING:
    from fencepost.task.tracing.spans import Export

log = logging.getLogger(__name__)

LAST_SPANS_S = 2.0
"""How long a worker or a slot that ends waits for the collector of its last spans."""
_lock = threading.Lock()
_exports: dict[bytes, "Export | None"] = {}  # None: it failed, which is logged once


def tracing_of(spec: TaskSpec, *, stamps: bool = True) -> Tracing:
    """Return the tracing of a task's instance. Never raises: without the library, nothing is traced."""
    export = None if spec.look_up.tracing is None else _export_of(spec.look_up.tracing)
    if export is None:
        return NO_TRACING
    from fencepost.task.tracing.spans import CONNECTOR, TASK, SpanTracing

    common: dict[str, str | int] = {CONNECTOR: spec.connector, TASK: spec.task}
    group = spec.input.consumer_conf.get("group.id")
    if group:
        common["messaging.consumer.group.name"] = group
    return SpanTracing(export.tracer, common, stamps=stamps)


def spans_dropped(spec: TaskSpec) -> dict[str, float]:
    """Return the counter of a task's dropped spans, by its name; nothing if it is not traced."""
    export = None if spec.look_up.tracing is None else _exports.get(_key(spec.look_up.tracing))
    return {} if export is None else {"spans_dropped": float(export.losses.of(spec.connector, spec.task))}


def close_tracing(within_s: float = LAST_SPANS_S) -> None:
    """Send the waiting spans, and stop. Spans that are not sent within `within_s` are lost."""
    with _lock:
        exports = [export for export in _exports.values() if export is not None]
        _exports.clear()
    threads = [threading.Thread(target=each.close, name="spans-close", daemon=True) for each in exports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(within_s)


def _export_of(spec: TracingSpec) -> "Export | None":
    with _lock:
        key = _key(spec)
        if key not in _exports:
            _exports[key] = None
            try:
                from fencepost.task.tracing.spans import Export

                _exports[key] = Export(spec)
            except Exception as error:  # a task must not fail for it
                log.warning(
                    "nothing is traced in this process: %s; executors need the extra, too: "
                    "`pip install 'fencepost[otel]'`",
                    error,
                )
        return _exports[key]


def _key(spec: TracingSpec) -> bytes:
    return orjson.dumps(spec.to_json())
