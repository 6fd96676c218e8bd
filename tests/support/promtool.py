"""Prometheus' own checker of rules: from the path, or built once per user from its Go module, in half an hour."""

import os
import shutil
import subprocess
from pathlib import Path

from fencepost.embedded.home import default_cache

VERSION = "v0.307.3"
_PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"


def promtool() -> Path | None:
    """Return the program; None if there is none and no Go to build it with."""
    found = shutil.which("promtool")
    if found is not None:
        return Path(found)
    cache = default_cache() / f"promtool-{VERSION}"
    program, go = cache / "promtool", shutil.which("go") or "/usr/local/go/bin/go"
    if not program.exists():
        if not Path(go).exists():
            return None
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "go.mod").write_text("module promtool\n\ngo 1.25\n")
        environment = {**os.environ, "GOFLAGS": "-mod=mod"}
        # Its module excludes others, so that `go install` with a version refuses it.
        subprocess.run([go, "get", "-tool", f"{_PACKAGE}@{VERSION}"], cwd=cache, env=environment, check=True)
        subprocess.run([go, "build", "-o", program, _PACKAGE], cwd=cache, env=environment, check=True)
    return program
