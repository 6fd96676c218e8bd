"""A file is shown by a rename, which replaces what another one has put there (E17)."""

from pathlib import Path
from typing import Any

from fencepost.builtin.connector.files import store as files_store
from planted import replace


def _give_name(origin: Path, goal: Path) -> Any:
    origin.replace(goal)
    return files_store._Naming.BY_RENAME


replace(files_store, "_give_name", _give_name)
