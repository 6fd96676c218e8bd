"""The source that crashes on command, under the real task loop and broker: nothing is lost, nothing comes twice."""

import json
import subprocess
import sys
import textwrap

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.source import (
    COMMIT,
    CRASH,
    PLUGIN_PATH,
    RAISE,
    RETRY,
    UPDATE_OFFSETS,
    ScriptedRecord,
    TestingSource,
)
from fencepost.testing.verdict import judge

_RUNNER = textwrap.dedent("""
    import json, sys
    from fencepost.kafka.read.log import LogReader
    from fencepost.task.source.runner import SourceRunner
    from fencepost.task.channel.message import Admission
    from fencepost.task.channel.task_spec import TaskSpec

    spec, bootstrap = TaskSpec.from_json(json.loads(sys.argv[1])), sys.argv[2]

    def admit(spec, *, wants_offsets=True):
        latest = {}
        reader = LogReader({"bootstrap.servers": bootstrap}, spec.output.offsets_topic)
        reader.read_to_end(20, lambda record: latest.update({record.key: record.value}))
        reader.close()
        return Admission(True, "", tuple((json.loads(k)[1], json.loads(v)) for k, v in latest.items()))

    SourceRunner(spec, admit, lambda report: None).run()
""")


def _spec(source, bootstrap, offsets_topic):
    transactional_id = f"id-{source.topic}"
    properties = source.properties(header_converter="org.apache.kafka.connect.storage.SimpleHeaderConverter")
    return {
        "connector": "testing",
        "task": 0,
        "generation": 1,
        "incarnation": "1",
        "connector_config": properties,
        "task_config": {**properties, "script.number": "0"},
        "output": {
            "producer_conf": transactional_conf({"bootstrap.servers": bootstrap}, transactional_id).conf,
            "offsets_topic": offsets_topic,
            "transactional_id": transactional_id,
        },
        "look_up": {"plugin_path": [PLUGIN_PATH]},
    }


def test_e1_task_that_crashes_around_its_transactions_delivers_once(kafka, topic_name):
    bootstrap, offsets_topic = kafka.bootstrap_servers, f"{topic_name}-offsets"
    admin = Admin({"bootstrap.servers": bootstrap})
    for topic in (topic_name, offsets_topic):
        admin.topics.create(topic, partitions=1, replication=1)
    script = ["r1", "r2", CRASH(), "r3", CRASH(UPDATE_OFFSETS), "r4", CRASH(COMMIT), ScriptedRecord("r5", "k")]
    source = TestingSource([*script, RAISE(), "r6", RETRY(), "r7"], topic=topic_name, bootstrap=bootstrap)
    command = [sys.executable, "-c", _RUNNER, json.dumps(_spec(source, bootstrap, offsets_topic)), bootstrap]
    ends = []
    with CommittedReader(bootstrap, [topic_name]) as reader:
        while len(reader.seen()) < 7 and len(ends) < 6:
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
                eventually(lambda child=child: child.poll() is not None or len(reader.seen()) >= 7, within_s=120)
                ends.append(child.poll())
                child.kill()
        for seen in (reader.catch_up(), reader.read_all()):
            verdict = judge(source.expected, seen, sighting=source.sighting, is_at_home=source.is_at_home)
            assert verdict.is_clean, verdict
    assert ends == [-9, -9, -9, 0, None]
