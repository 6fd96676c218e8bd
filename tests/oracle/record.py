"""Records what a real Kafka Connect 4.3.1 writes and answers: `python tests/oracle/record.py`.

1. A broker and one worker with exactly-once sources are started; jars are fetched the first time.
2. The scenario drives it over REST; every answer is kept.
3. The worker stops gracefully, and every record of its three topics is dumped, tombstones included.
The result, in `tests/fixtures/connect-4.3.1/`, is committed: tests compare ours with it without any Java worker.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
from fencepost.embedded import EmbeddedKafka
from oracle.connect import KafkaConnect
from oracle.recorder import Json, Recorder
from oracle.scenario import dump, run

OUTPUT = Path(__file__).parents[1] / "fixtures" / "connect-4.3.1"
PORT = 28083
GROUP = "oracle"
TOPICS = {"config": "oracle-configs", "offset": "oracle-offsets", "status": "oracle-status"}

WORKER = {
    "group.id": GROUP,
    "exactly.once.source.support": "enabled",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.flush.interval.ms": "1000",
    "config.storage.topic": TOPICS["config"],
    "offset.storage.topic": TOPICS["offset"],
    "status.storage.topic": TOPICS["status"],
}


def _write(name: str, content: Json, hidden: str) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    if hidden in text:
        raise SystemExit(f"{name} would name a path of this machine ({hidden}); mask it in the scenario")
    (OUTPUT / f"{name}.json").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=PORT, help="of the worker; it appears in the fixtures")
    port = parser.parse_args().port
    OUTPUT.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary, EmbeddedKafka() as kafka:
        directory = Path(temporary)
        with KafkaConnect(kafka.bootstrap_servers, directory, port, WORKER) as worker:
            rest = Recorder(worker.url)
            run(rest, directory, kafka.bootstrap_servers)
        _write("rest", rest.exchanges, temporary)
        for name, content in dump(kafka.bootstrap_servers, TOPICS).items():
            _write(name, content, temporary)
    print(f"{len(rest.exchanges)} exchanges in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
