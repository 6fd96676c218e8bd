"""A fuzzer that reads the worker's own description of its API, against a real worker, for ten minutes.

And for six with each role, for one connector: what the role does not allow has not happened. That is about ten thousand
requests each on two idle cores. FENCEPOST_FUZZ_EXAMPLES=400 makes it twenty times as long.
"""

import os
import re
import subprocess
import sys
import uuid
from base64 import b64encode
from pathlib import Path

import httpx
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.cluster import LightWorker
from support.long_form import IS_LONG
from support.worker import Worker

EXAMPLES = int(os.environ.get("FENCEPOST_FUZZ_EXAMPLES", "20"))  # of each operation
LONGER = max(1, EXAMPLES // 20)

pytestmark = [
    pytest.mark.skipif(not IS_LONG, reason="only in `make chaos`"),
    pytest.mark.timeout(1500 * LONGER),
]

ROOT = Path(__file__).resolve().parents[2]
# A document cannot say which classes there are, and what fits together. A check of ours knows which 500 is right.
LEFT_OUT = "positive_data_acceptance,not_a_server_error"


def test_the_api_conforms_to_its_document(kafka: EmbeddedKafka, tmp_path: Path, seed: int) -> None:
    print(f"FENCEPOST_CHAOS_SEED={seed}")
    settings = {"spark.master": "local[2]"}
    with Worker(kafka.bootstrap_servers, tmp_path, settings, group=f"g-{uuid.uuid4().hex[:6]}") as worker:
        config = {"connector.class": "Datagen", "topic": "fuzzed", "fields": "id:sequence", "rows.per.second": "1"}
        for name in ("0", "a"):  # names that the fuzzer likes
            assert worker.create(name, config).status_code == 201
        _fuzz(worker, seed, tmp_path, 600)
        eventually(lambda: worker.rest.get("/health").json()["status"] == "healthy", within_s=240)
        assert worker.create("after", {**config, "topic": "after"}).status_code == 201


FUZZER = f"Authorization: Basic {b64encode(b'fuzzer:of-the-fuzzer').decode()}"
ROLES = ("view", "operate", "edit", "admin")


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_refused_forbidden_requests(kafka: EmbeddedKafka, tmp_path: Path, seed: int, role: str) -> None:
    (tmp_path / "users").write_text("root=of-root\nfuzzer=of-the-fuzzer\n")
    (tmp_path / "roles").write_text(f"user:root admin *\nuser:fuzzer {role} 0\n")
    files = {"rest.basic.users.file": str(tmp_path / "users"), "rest.roles.file": str(tmp_path / "roles")}
    worker = LightWorker(kafka.bootstrap_servers, tmp_path, files, group=f"g-{uuid.uuid4().hex[:6]}")
    worker.rest.auth = httpx.BasicAuth("root", "of-root")
    with worker:
        config = {"connector.class": "Datagen", "topic": "fuzzed", "fields": "id:sequence", "rows.per.second": "1"}
        for name in ("0", "a"):
            assert worker.create(name, config).status_code == 201
            eventually(lambda name=name: worker.task_states(name) == ["RUNNING"], within_s=120)
        loggers = worker.rest.get("/admin/loggers").json()
        _fuzz(worker, seed, tmp_path, 360, "--header", FUZZER)
        assert worker.rest.get("/connectors/a/config").json() == {**config, "name": "a"}
        assert (worker.status("a")["connector"]["state"], worker.task_states("a")) == ("RUNNING", ["RUNNING"])
        assert set(worker.rest.get("/connectors").json()) <= {"0", "a"}
        levels = {name: found["level"] for name, found in worker.rest.get("/admin/loggers").json().items()}
        assert {name: levels[name] for name in loggers} == {name: found["level"] for name, found in loggers.items()}
        if role in ("view", "operate"):
            assert worker.rest.get("/connectors/0/config").json() == {**config, "name": "0"}
        if role == "view":
            assert worker.task_states("0") == ["RUNNING"]


def _fuzz(worker: Worker, seed: int, directory: Path, most_s: int, *more: str) -> None:
    output = _fuzzed(f"http://127.0.0.1:{worker.port}/openapi.json", seed, directory, most_s, *more)
    found = re.search(r"([\d,]+) generated", output)
    assert found is not None, output
    print(f"{found[1]} requests")
    assert int(found[1].replace(",", "")) > 500


def _fuzzed(url: str, seed: int, directory: Path, most_s: int, *more: str) -> str:
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", url, "--checks", "all"]
    command += ["--exclude-checks", LEFT_OUT, "--seed", str(seed), "--max-examples", str(EXAMPLES)]
    command += [
        "--max-time",
        str(most_s * LONGER),
        "--continue-on-failure",
        "--no-color",
        "--request-timeout",
        "100",
        "--no-shrink",
        *more,
    ]
    path = os.pathsep.join((str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "support.fuzz_checks", "PYTHONPATH": path}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=directory, timeout=1200 * LONGER
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
