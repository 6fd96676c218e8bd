"""`fencepost dev --reload`: the worker is a child process that is started again when a plug-in changes."""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from fencepost.plugin import PluginKind
from fencepost.telemetry.plain_line import announce

_LOOK_S = 0.5
_ENDS_WITHIN_S = 60.0
_SUFFIXES = (".py", ".jar")

Files = Mapping[Path, int]
"""When each file was changed, in nanoseconds."""


def run_reloading(command: Sequence[str], plugin_path: str) -> int:
    """Run the command until SIGTERM or Ctrl-C, and again after each change of a plug-in. Returns its exit code."""
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    return reload(command, lambda: plugin_files(plugin_path), is_over)


def reload(
    command: Sequence[str], files: Callable[[], Files], is_over: threading.Event, look_s: float = _LOOK_S
) -> int:
    """Run the command until `is_over`, and again after each change. Ends with the command if that ends by itself."""
    while True:
        before = files()
        child = subprocess.Popen(command, start_new_session=True)  # Ctrl-C reaches only this process, which ends it
        try:
            changed = _awaited_change(child, before, files, is_over, look_s)
        finally:
            _end(child)
        if changed is None:
            return max(0, child.returncode)
        announce("Reload", str(changed), "has changed")


def plugin_files(plugin_path: str) -> Files:
    """Return the files of directories of plug-ins, and of installed packages that have some."""
    roots = [Path(each.strip()) for each in plugin_path.split(",") if each.strip()]
    found: dict[Path, int] = {}
    for root in (*roots, *_packages()):
        for path in root.rglob("*") if root.is_dir() else (root,):
            if path.suffix in _SUFFIXES:
                try:
                    found[path] = path.stat().st_mtime_ns
                except OSError:
                    continue  # an editor is replacing it
    return found


def _packages() -> Iterator[Path]:
    entries = {
        entry.value.partition(":")[0] for kind in PluginKind for entry in entry_points(group=kind.entry_point_group)
    }
    for name in sorted({module.partition(".")[0] for module in entries}):
        spec = find_spec(name)
        if spec is not None:
            yield from map(Path, spec.submodule_search_locations or ([spec.origin] if spec.origin else []))


def _awaited_change(
    child: "subprocess.Popen[bytes]",
    before: Files,
    files: Callable[[], Files],
    is_over: threading.Event,
    look_s: float,
) -> Path | None:
    """Return a file that has changed, once no more do; None if the child has ended, or everything is over."""
    while not is_over.wait(look_s) and child.poll() is None:
        now = files()
        if now == before:
            continue
        while not is_over.wait(look_s) and (later := files()) != now:
            now = later
        return next((path for path in sorted({*before, *now}) if before.get(path) != now.get(path)), Path())
    return None


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
