"""Plug-ins in the directories of the worker's `plugin.path`."""

import importlib.util
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

log = logging.getLogger(__name__)


def modules_in(directories: Sequence[str], failures: list[str]) -> Iterator[ModuleType]:
    """Import each `*.py` file and package of the directories; errors are added to `failures`."""
    for directory in directories:
        path = Path(directory)
        try:
            if not path.is_dir():
                failures.append(f"plugin.path: {directory} is not a directory")
                continue
            files = list(_files(path))
        except OSError as error:
            log.warning("plug-ins in %s cannot be listed: %s", directory, error)
            failures.append(
                f"plugin.path: {directory} cannot be read: {error.strerror}; give this process the right to"
            )
            continue
        if str(path.resolve()) not in sys.path:
            sys.path.append(str(path.resolve()))  # last: a plug-in cannot shadow a library
        for file in files:
            try:
                module = _imported(file)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # sys.exit(), or the panic of a Rust extension
                log.warning("plug-in %s could not be loaded", file, exc_info=True)
                failures.append(f"plugin.path: {file} could not be loaded: {type(error).__name__}: {error}")
            else:
                yield module


def _files(directory: Path) -> Iterator[Path]:
    for entry in sorted(directory.iterdir()):
        if entry.suffix == ".py" and entry.stem.isidentifier():
            yield entry
        elif entry.name.isidentifier() and (entry / "__init__.py").is_file():
            yield entry / "__init__.py"


def _imported(file: Path) -> ModuleType:
    name = file.parent.name if file.name == "__init__.py" else file.stem
    known = sys.modules.get(name)
    if known is not None:
        if Path(getattr(known, "__file__", None) or "").resolve() == file.resolve():
            return known
        raise ImportError(f"a module named {name} already exists; rename the file")
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise ImportError(f"{file} is not a Python module")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
