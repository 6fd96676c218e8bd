"""uv, as `make setup` runs it: for tests that make environments of their own."""

import os
import subprocess
import sys
from pathlib import Path


def uv(*words: str | Path, is_cached: bool = False) -> str:
    """Run uv and return what it prints. If its cache has all that is needed (`is_cached`), try without the network."""
    command = [str(Path(sys.prefix, "bin/uv")), *map(str, words)]
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    for each in ([*command, "--offline"], command) if is_cached else (command,):
        done = subprocess.run(each, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    return done.stdout
