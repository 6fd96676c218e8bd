"""Helm itself: the one on the PATH, or built once from Go's module proxy, which takes minutes."""

import os
import shutil
import subprocess
from pathlib import Path

from fencepost.embedded.home import default_cache, locked

_VERSION = "v3.19.0"
_MODULE = "helm.sh/helm/v3/cmd/helm"


class NoHelmError(Exception):
    """There is no Helm, and none can be built here."""


def helm(*, may_build: bool) -> Path:
    """Return Helm's program. Raises NoHelmError if there is none, and none may or can be built."""
    found = shutil.which("helm")
    if found:
        return Path(found)
    built = default_cache() / f"helm-{_VERSION}" / "helm"
    if not built.exists():
        if not may_build:
            raise NoHelmError("helm is not on the PATH; `make chaos` builds one")
        _build(built)
    return built


def _build(program: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise NoHelmError("helm is not on the PATH, and there is no Go to build one")
    with locked(program.parent.with_suffix(".lock")):
        if not program.exists():
            environment = {**os.environ, "GOBIN": str(program.parent), "CGO_ENABLED": "0"}
            done = subprocess.run([go, "install", f"{_MODULE}@{_VERSION}"], env=environment, capture_output=True,
                                  text=True, check=False)  # fmt: skip
            if done.returncode:
                raise NoHelmError(f"helm could not be built: {done.stderr[-1000:]}")
