"""The entry that slots of these tests run: executors get this file by `py_files`."""

import json
import os
import time


def run(spec_json: str, attempt: int) -> None:
    """Write the process's ids, then wait for the file that ends it (or raise what the spec says)."""
    spec = json.loads(spec_json)
    with open(spec["file"], "a") as file:
        file.write(json.dumps({"pid": os.getpid(), "attempt": attempt, "secret": os.environ.get("TEST_SECRET")}) + "\n")
    if "error" in spec:
        raise ValueError(spec["error"])
    while not os.path.exists(spec["file"] + ".stop"):
        time.sleep(0.02)
