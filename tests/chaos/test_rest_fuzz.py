"""A fuzzer that reads the worker's own description of its API, against a real worker: about a thousand requests."""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from support.long_form import IS_LONG
from support.worker import Worker

pytestmark = [
    pytest.mark.skipif(not IS_LONG, reason="only in `make chaos`"),
    pytest.mark.timeout(1500),
]

ROOT = Path(__file__).resolve().parents[2]
# A document cannot say which classes there are, and what fits together. A check of ours knows which 500 is right.
LEFT_OUT = "positive_data_acceptance,not_a_server_error"


def test_the_api_does_what_its_document_says(kafka: EmbeddedKafka, tmp_path: Path, seed: int) -> None:
    print(f"FENCEPOST_CHAOS_SEED={seed}")
    settings = {"spark.master": "local[2]"}
    with Worker(kafka.bootstrap_servers, tmp_path, settings, group=f"g-{uuid.uuid4().hex[:6]}") as worker:
        config = {"connector.class": "Datagen", "topic": "fuzzed", "fields": "id:sequence", "rows.per.second": "1"}
        for name in ("0", "a"):  # names that the fuzzer likes
            assert worker.create(name, config).status_code == 201
        output = _fuzzed(f"http://127.0.0.1:{worker.port}/openapi.json", seed, tmp_path)
        found = re.search(r"([\d,]+) generated", output)
        assert found is not None, output
        assert int(found[1].replace(",", "")) > 500
        assert worker.rest.get("/health").json()["status"] == "healthy"
        assert worker.create("after", {**config, "topic": "after"}).status_code == 201


def _fuzzed(url: str, seed: int, directory: Path) -> str:
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", url, "--checks", "all"]
    command += ["--exclude-checks", LEFT_OUT, "--seed", str(seed), "--max-examples", "20", "--max-time", "600"]
    command += ["--continue-on-failure", "--no-color", "--request-timeout", "100", "--no-shrink"]
    path = os.pathsep.join((str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "support.fuzz_checks", "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=directory, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
