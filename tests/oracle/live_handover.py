"""Hands a cluster's state over between a real Kafka Connect 4.3.1 and our worker, live, and judges what was delivered.

`python tests/oracle/live_handover.py`: Kafka Connect ▸ Fencepost ▸ Kafka Connect ▸ Fencepost ▸ Kafka Connect, one after
the other over the same topics, each started the moment its predecessor has ended; the first two stop cleanly, the
next two are killed with SIGKILL under load. Everything must be delivered exactly once, in order, and every connector
must stay in its state. After a clean stop of ours Kafka Connect has to come up at the first try. After a kill it ends
as long as our place in the group lasts, and is started again by whatever supervises it: here by `KafkaConnect`.

With `--record` what the first two left in the internal topics becomes `tests/fixtures/connect-4.3.1/handover.json`,
so that a test can do these steps without any Java worker.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from connect import KafkaConnect
from handover import FIXTURE, GROUP, LINES, OURS, SETTINGS, TOPICS, Watched, compacted, set_up, turn
from scenario import dump

from fencepost.embedded import EmbeddedKafka
from support.worker import Worker

PORT = 28083


class Relay:
    """The workers, one after the other over the same topics."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self._directory = directory

    def connect(self, act: Callable[[Watched, Path], None], *, is_killed: bool = False) -> int:
        """Kafka Connect's turn. Returns how often it had to be started."""
        with _told("Kafka Connect", is_killed) as healthy:
            with KafkaConnect(self.bootstrap, self._directory, PORT, SETTINGS) as worker:
                healthy(f"healthy at start {worker.starts}")
                act(Watched(self.bootstrap, worker.url), self._directory)
                worker.kill() if is_killed else worker.stop()
            return worker.starts

    def fencepost(self, act: Callable[[Watched, Path], None], *, is_killed: bool = False) -> None:
        """Our turn."""
        worker = Worker(self.bootstrap, self._directory, {**SETTINGS, **OURS}, group=GROUP)
        with _told("Fencepost", is_killed) as healthy:
            try:
                with contextlib.chdir(self._directory):  # where relative file names start
                    worker.start(within_s=240)
                healthy("healthy")
                act(Watched(self.bootstrap, str(worker.rest.base_url)), self._directory)
            except AssertionError:
                print(worker.log_text()[-4000:])
                raise
            finally:
                worker.kill() if is_killed else worker.stop()


@contextlib.contextmanager
def _told(who: str, is_killed: bool) -> Iterator[Callable[[str], None]]:
    begun = time.monotonic()
    yield lambda what: print(f"{time.monotonic() - begun:6.1f} s  {who}, {what}", flush=True)
    print(f"{time.monotonic() - begun:6.1f} s  {who}, {'killed' if is_killed else 'stopped'} in the end", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the fixture")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, EmbeddedKafka(start_timeout_s=300) as kafka:
        relay, left = Relay(kafka.bootstrap_servers, Path(temporary)), {}
        relay.connect(set_up)
        left["connect"] = compacted(dump(relay.bootstrap, TOPICS))
        relay.fencepost(turn(1))
        left["fencepost"] = compacted(dump(relay.bootstrap, TOPICS))
        starts = relay.connect(turn(2), is_killed=True)
        if starts != 1:
            raise SystemExit(f"Kafka Connect came up at start {starts} after a clean stop of ours")
        relay.fencepost(turn(3), is_killed=True)
        relay.connect(turn(4))
        verdict = Watched(relay.bootstrap, "http://127.0.0.1:1").judged(5 * LINES)
        print(verdict)
        if not verdict.is_clean:
            raise SystemExit(1)
        if arguments.record:
            _write(left, hidden=temporary)


def _write(left: dict[str, Any], hidden: str) -> None:
    text = json.dumps(left, indent=1, ensure_ascii=False) + "\n"
    if hidden in text:
        raise SystemExit(f"the fixture would name a path of this machine ({hidden})")
    FIXTURE.write_text(text)


if __name__ == "__main__":
    main()
