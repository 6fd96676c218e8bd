"""A collector of OpenTelemetry: takes spans over HTTP and reads them, or is as slow as a test wants."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Seen(NamedTuple):
    """A span as it arrived. Ids are hexadecimal."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    resource: dict[str, Any]


class Collector:
    """A context manager. While `may_answer` is not set, requests get no answer; then `status`."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.spans: list[Seen] = []
        self.headers: list[dict[str, str]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()

    def named(self, name: str, **attributes: Any) -> list[Seen]:
        """Return the spans of that name; underscores in names of `attributes` stand for dots."""
        wanted = {key.replace("_", "."): value for key, value in attributes.items()}.items()
        return [span for span in tuple(self.spans) if span.name == name and wanted <= span.attributes.items()]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.headers.append({key.lower(): value for key, value in self.headers.items()})
                outer.may_answer.wait(60)
                if outer.status == 200 and self.path == "/v1/traces":
                    outer.spans += _spans(body)
                self.send_response(outer.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler


def _spans(body: bytes) -> list[Seen]:
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [
        Seen(
            span.name,
            span.kind,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            _attributes(span.attributes),
            [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
            _attributes(resource.resource.attributes),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _attributes(pairs: Any) -> dict[str, Any]:
    value: Callable[[Any], Any] = lambda each: getattr(each, each.WhichOneof("value"))  # noqa: E731
    return {pair.key: value(pair.value) for pair in pairs}
