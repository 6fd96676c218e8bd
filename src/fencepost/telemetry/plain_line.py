"""Lines of the log that no logger writes: before the log is set up, and those of other processes.

Separate from `logs`, whose import takes a tenth of the time that a worker starts in.
"""

import json
import os
import sys
from datetime import UTC, datetime


def is_json() -> bool:
    """Say whether logs are written as JSON, which `FENCEPOST_LOG_FORMAT=json` asks for."""
    return os.environ.get("FENCEPOST_LOG_FORMAT", "").lower() == "json"


def printable(text: str) -> str:
    """Return a text without control characters: names and traces come from others, and could write to the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def print_early(logger: str, text: str) -> None:
    """Print a line on stderr as the log will be: `text`, or JSON with the fields that `configure_logs` gives each."""
    if is_json():
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        text = json.dumps({"event": text, "level": "info", "logger": logger, "timestamp": now})
    print(text, file=sys.stderr, flush=True)


def announce(what: str, address: str, remark: str = "") -> None:
    """Say where something listens: on stdout, or as a line of the log if that is JSON."""
    if is_json():
        print_early("fencepost.worker", f"{what}: {address} {remark}".rstrip())
    else:
        print(f"{what:<10} {address}   {remark}".rstrip(), flush=True)


def with_source(name: str, line: bytes) -> bytes:
    """Return a line of a process' log with the name of the process: before it, or as the field `flow` if it is JSON."""
    if not is_json():
        return f"[{name}] ".encode() + line
    field = json.dumps({"flow": name})[1:-1].encode()
    if line.startswith(b'{"') and line.rstrip().endswith(b"}"):
        return b"{" + field + b", " + line[1:]
    event = json.dumps({"event": line.decode("utf-8", "replace").rstrip(), "level": "info"})[1:-1]
    return b"{" + field + b", " + event.encode() + b"}\n"
