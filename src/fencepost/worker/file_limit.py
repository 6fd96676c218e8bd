"""The limit of connectors' files, as the worker's file sets it; the worker's own files are out of it."""

import contextlib
import os
import re
from collections.abc import Iterator

from fencepost.config import ConfigError
from fencepost.config.file_limit import FileLimit, file_limit, keep_from_connectors, use_file_limit
from fencepost.config.worker import WorkerConfig

_BETWEEN_PATHS = re.compile(r"""[\s,;:="']+""")
"""What is between paths in a setting, such as options of a JVM or a login module."""


def limit_files(config: WorkerConfig) -> None:
    """Limit the files of this process's connectors."""
    allowed = config.file_allowed_paths
    use_file_limit(FileLimit(None if allowed is None else tuple(allowed), file_limit().refused))
    keep_from_connectors(own_files(config))


def own_files(config: WorkerConfig) -> Iterator[str]:
    """Yield the directories of plug-ins, and every file that a setting names."""
    yield from config.plugin_path or ()
    for value in config.originals.values():
        yield from filter(os.path.isfile, {str(value), *_BETWEEN_PATHS.split(str(value))})
    with contextlib.suppress(ConfigError):  # which is the fault of another setting
        if (users := config.users()) is not None:
            yield users
