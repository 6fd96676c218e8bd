"""`fencepost audit` of a running mirror."""

import json
import subprocess
import sys

from flow import Flow

from fencepost.testing import eventually

COUNT = 500


def test_audit_verifies_mirrored_records_and_counts_records_of_other_writers(flow: Flow) -> None:
    topic = flow.source.topic(f"audited-{flow.source_alias}", partitions=2)
    for partition in range(2):
        flow.source.send(topic, [f"{partition} {number}" for number in range(COUNT)], partition, headers=[("h", "v")])
        with flow.source.transaction(is_committed=False) as producer:
            producer.produce(topic, "aborted", partition=partition)
    name = flow.start("Source", topics=topic, refresh__topics__interval__seconds="1")

    def is_copied() -> bool:
        found = flow.offsets(name)
        return len(found) == 2 and all(each["offset"]["offset"] >= COUNT - 1 for each in found)

    eventually(is_copied, within_s=60)
    flow.target.send(flow.remote(topic), ["another's"])
    command = [sys.executable, "-m", "fencepost.cli.main", "audit", name, "--output", "json"]
    command += ["--url", str(flow.worker.rest.base_url)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert sum(each["verified"] for each in report["partitions"]) == 2 * COUNT
    assert sum(each["of_others"] for each in report["partitions"]) in (0, 1)  # what comes after all of it is not read
