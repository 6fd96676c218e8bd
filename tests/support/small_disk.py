"""Disks that are full soon."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str = "64k") -> Iterator[Path]:
    """Mount an empty file system of this size at a directory. Skips the test where that is not possible."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here, as only root may: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def enlarge(place: Path, size: str) -> None:
    """Give a small disk more room."""
    subprocess.run(["mount", "-o", f"remount,size={size}", place], check=True)
