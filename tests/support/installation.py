"""The wheel as a user gets it: built, and installed into an environment in which there is nothing else.

Programs of it run as somebody without rights, for whom only `/tmp` can be written, where the tests may do that.
"""

import functools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from support.uv import uv

ROOT = Path(__file__).parents[2]
_NOBODY = "65534"

# 1 `/tmp` becomes a mount of its own, which stays as it is; 2 everything else cannot be written, the installation
# neither; 3 the rights are dropped. Nothing of it outlives the process.
_CONFINED = """
set -e
mount --bind /tmp /tmp
mount -o remount,bind,ro /
mount --bind {prefix} {prefix}
mount -o remount,bind,ro {prefix}
exec setpriv --reuid={nobody} --regid={nobody} --clear-groups --no-new-privs --bounding-set=-all "$@"
"""


def build(out: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return both."""
    uv("build", "--out-dir", out, ROOT, is_cached=True)
    [sdist], [wheel] = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def build_wheel(source: Path, out: Path) -> Path:
    """Build the wheel of a source tree."""
    uv("build", "--wheel", "--out-dir", out, source, is_cached=True)
    [wheel] = out.glob("*.whl")
    return wheel


def install_as_typed(text: str, dist: Path, home: Path) -> None:
    """Run the commands of a page that build and install the wheel, in a clone of which only `dist` is there.

    uv does what pip does: it has a cache. The versions are those that everything else is tested with.
    """
    clone = home / "clone"
    clone.mkdir()
    (clone / "dist").symlink_to(dist)
    program = Path(sys.prefix, "bin/uv")
    changes = {
        "make dist": "ls dist/*.tar.gz dist/*.whl",
        "python3 -m venv": f"{program} venv --python {interpreter()}",
        "~/pipelines/.venv/bin/pip install": f"{program} pip install --python ~/pipelines/.venv/bin/python "
        f"--constraint {ROOT}/requirements.lock",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    script = f"{text}test -x .venv/bin/fencepost\n"
    environment = {**os.environ, "HOME": str(home), "UV_CACHE_DIR": uv("cache", "dir").strip(), "UV_OFFLINE": "1"}
    environment.pop("VIRTUAL_ENV", None)
    for each in (environment, {**environment, "UV_OFFLINE": "0"}):
        shutil.rmtree(home / "pipelines", ignore_errors=True)
        done = subprocess.run(["bash", "-e", "-c", script], cwd=clone, env=each, capture_output=True, text=True,
                              check=False)  # fmt: skip
        if done.returncode == 0:
            return
    raise AssertionError(done.stderr)


def add_extra(name: str, prefix: Path) -> None:
    """Add an extra as messages of a worker say, to an environment with a wheel that no index has."""
    of = ("--python", prefix / "bin/python", "--constraint", ROOT / "requirements.lock")
    uv("pip", "install", *of, f"fencepost[{name}]", is_cached=True)


def why_not_confined() -> str | None:
    """Return why programs cannot be confined here; None if they can be."""
    if os.geteuid() != 0:
        return "only root may change what a process sees and is"
    tried = subprocess.run(confined("/srv", ["true"]), capture_output=True, text=True, check=False)
    return tried.stderr.strip() or "mounts cannot be changed" if tried.returncode else None


def confined(prefix: str | Path, command: list[str]) -> list[str]:
    """Return `command` as somebody without rights who can write in `/tmp` only, and not in `prefix`."""
    script = _CONFINED.format(prefix=shlex.quote(str(prefix)), nobody=_NOBODY)
    return ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", *command]


def interpreter() -> str:
    """Return a Python that others than root can start, too: one below root's home cannot be."""
    candidates = [getattr(sys, "_base_executable", sys.executable), *map(shutil.which, ("python3.11", "python3"))]
    usable = [path for path in (*candidates, "/usr/bin/python3") if path and _is_usable(os.path.realpath(path))]
    return usable[0] if usable else sys.executable


@functools.cache
def _is_usable(path: str) -> bool:
    code = "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))"
    command = [path, "-c", code]
    if os.geteuid() == 0:
        # The shell has no rights any more when it starts Python; setpriv itself has root's until then.
        drop = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        command = [*drop, "sh", "-c", 'exec "$@"', "sh", *command]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
