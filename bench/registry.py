"""A schema registry that knows one schema: as much of Confluent's API as a sink asks for, once an epoch."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCHEMA_ID = 1


@contextmanager
def registry(schema: str) -> Iterator[str]:
    """Return its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = json.dumps(_answer(self.path.partition("?")[0], schema)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _answer(path: str, schema: str) -> Mapping[str, object]:
    if path.startswith("/subjects/"):
        return {"subject": path.split("/")[2], "version": 1, "id": SCHEMA_ID, "schema": schema}
    return {"schema": schema}
