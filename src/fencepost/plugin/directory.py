"""Plug-ins in the directories of the worker's `plugin.path`.

Two directories may have modules of one name, with two versions of a plug-in (KIP-891). The second is imported under
another name, which no config contains: `public_name` returns the name that both have in configs.
"""

import importlib.util
import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fencepost.plugin.mistake import import_fault, unusable_names

log = logging.getLogger(__name__)

_imported: dict[Path, ModuleType] = {}  # what was imported from directories in this process
_own_names: dict[str, str] = {}  # of modules that were imported under other names


def other_version_of(module: ModuleType) -> str | None:
    """Return the name that a module shares with one that was imported before; None if it has a name of its own."""
    return _own_names.get(module.__name__)


def public_name(cls: type[Any]) -> str:
    """Return a class's module and name, as configs contain them."""
    root, dot, inner = cls.__module__.partition(".")
    return f"{_own_names.get(root, root)}{dot}{inner}.{cls.__qualname__}"


def modules_in(
    directories: Sequence[str], failures: list[str], other_plugins: Collection[str] = ()
) -> Iterator[ModuleType]:
    """Import each `*.py` file and package of the directories; errors are added to `failures`.

    Args:
        other_plugins: Names of top-level modules with plug-ins from elsewhere, of which a directory may have another
            version.
    """
    for directory in directories:
        path = Path(directory)
        try:
            if path.suffix.lower() in (".jar", ".zip"):
                continue  # Java's
            if not path.is_dir():
                failures.append(f"plugin.path: {directory} is not a directory")
                continue
            files = list(_files(path))
            failures += unusable_names(sorted(path.iterdir()))
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
                module = _module_of(file, other_plugins)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # sys.exit(), or the panic of a Rust extension
                log.info("plug-in %s could not be loaded", file, exc_info=True)
                failures.append(f"plugin.path: {file} could not be loaded: {import_fault(error, file)}")
            else:
                yield module


def _files(directory: Path) -> Iterator[Path]:
    for entry in sorted(directory.iterdir()):
        if entry.suffix == ".py" and entry.stem.isidentifier():
            yield entry
        elif entry.name.isidentifier() and (entry / "__init__.py").is_file():
            yield entry / "__init__.py"


def _module_of(file: Path, other_plugins: Collection[str]) -> ModuleType:
    path = file.resolve()
    if path not in _imported:
        name = file.parent.name if file.name == "__init__.py" else file.stem
        _imported[path] = _known(name, path) or _import(_free_name(name, other_plugins), file)
    return _imported[path]


def _known(name: str, path: Path) -> ModuleType | None:
    known = sys.modules.get(name)
    return known if known is not None and Path(getattr(known, "__file__", None) or "").resolve() == path else None


def _free_name(name: str, other_plugins: Collection[str]) -> str:
    if name not in sys.modules:
        return name
    if name not in other_plugins and all(module.__name__ != name for module in _imported.values()):
        raise ImportError(f"a module named {name} already exists; rename the file")
    number = 2
    while f"{name}__{number}" in sys.modules:
        number += 1
    _own_names[f"{name}__{number}"] = name
    return f"{name}__{number}"


def _import(name: str, file: Path) -> ModuleType:
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
