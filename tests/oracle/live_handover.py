"""Hands a cluster's state over between a real Kafka Connect 4.3.1 and our worker, live, and judges what was delivered.

`python tests/oracle/live_handover.py`: Kafka Connect ▸ Fencepost ▸ Kafka Connect ▸ Fencepost ▸ Kafka Connect, one after
the other over the same topics, each started the moment its predecessor has ended; the first two stop cleanly, the
next two are killed with SIGKILL under load. Everything must be delivered exactly once, in order, and every connector
must stay in its state. After a clean stop of ours Kafka Connect has to come up at the first try. After a kill it ends
as long as our place in the group lasts, and is started again by whatever supervises it: here by `KafkaConnect`.
The connectors are Kafka's, for which Fencepost has classes of its own, and Java ones of `plugin.path`, which Fencepost
runs in hosts: a source of the tests, with `transaction.boundary=poll` and with `connector`, and Debezium's for Postgres
where a server is installed.

With `--record` what the first two left in the internal topics becomes `tests/fixtures/connect-4.3.1/handover.json`,
so that a test can do these steps without any Java worker; there are no Java connectors then.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from connect import KafkaConnect
from scenario import dump

from fencepost.embedded import EmbeddedKafka
from fencepost.testing.verdict import Verdict
from oracle.handover import FIXTURE, GROUP, LINES, OURS, SETTINGS, TOPICS, Watched, compacted, set_up, turn
from oracle.java_handover import JavaSource, java_sources
from support.worker import Worker

PORT = 28083


Act = Callable[[Watched, Path], None]


class Relay:
    """The workers, one after the other over the same topics, in a directory, which has `plugins` for `plugin.path`."""

    def __init__(self, bootstrap: str, directory: Path, sources: Sequence[JavaSource]) -> None:
        self.bootstrap = bootstrap
        self._directory = directory
        self._sources = sources
        self._settings = SETTINGS | ({"plugin.path": str(directory / "plugins")} if sources else {})

    def connect(self, act: Act, *, is_killed: bool = False) -> int:
        """Kafka Connect's turn. Returns how often it had to be started."""
        with _told("Kafka Connect", is_killed) as healthy:
            with KafkaConnect(self.bootstrap, self._directory, PORT, self._settings) as worker:
                healthy(f"healthy at start {worker.starts}")
                act(self.watched(worker.url), self._directory)
                worker.kill() if is_killed else worker.stop()
            return worker.starts

    def fencepost(self, act: Act, *, is_killed: bool = False) -> None:
        """Our turn."""
        worker = Worker(self.bootstrap, self._directory, {**self._settings, **OURS}, group=GROUP)
        with _told("Fencepost", is_killed) as healthy:
            try:
                with contextlib.chdir(self._directory):  # where relative file names start
                    worker.start(within_s=240)
                healthy("healthy")
                act(self.watched(str(worker.rest.base_url)), self._directory)
            except AssertionError:
                print(worker.log_text()[-4000:])
                raise
            finally:
                worker.kill() if is_killed else worker.stop()

    def watched(self, url: str) -> Watched:
        others = {each.name: ("RUNNING", each.tasks) for each in self._sources}
        return Watched(self.bootstrap, url, others=others)

    def first(self, cluster: Watched, directory: Path) -> None:
        """What the first worker does."""
        set_up(cluster, directory, [each.create for each in self._sources])

    def turn(self, number: int) -> Act:
        """What every later worker does."""

        def go_on(cluster: Watched, directory: Path) -> None:
            turn(number)(cluster, directory)
            for each in self._sources:
                each.go_on(cluster)

        return go_on

    def last(self, number: int) -> Act:
        """What the last worker does."""

        def end(cluster: Watched, directory: Path) -> None:
            self.turn(number)(cluster, directory)
            for each in self._sources:
                each.finish(cluster)

        return end

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        """Yield what is said of Kafka's connectors, and of each other one. Nothing runs any more."""
        cluster = self.watched("http://127.0.0.1:1")
        yield "Kafka's own", cluster.judged(5 * LINES)
        for each in self._sources:
            yield each.name, each.judged(cluster)


@contextlib.contextmanager
def _told(who: str, is_killed: bool) -> Iterator[Callable[[str], None]]:
    begun = time.monotonic()
    yield lambda what: print(f"{time.monotonic() - begun:6.1f} s  {who}, {what}", flush=True)
    print(f"{time.monotonic() - begun:6.1f} s  {who}, {'killed' if is_killed else 'stopped'} in the end", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the fixture")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        temporary, of_server = (
            stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)) for _ in "12"
        )
        kafka = stack.enter_context(EmbeddedKafka(start_timeout_s=300))
        sources: list[JavaSource] = []
        if not arguments.record:
            sources = stack.enter_context(java_sources(Path(temporary, "plugins"), Path(of_server)))
        relay, left = Relay(kafka.bootstrap_servers, Path(temporary), sources), {}
        relay.connect(relay.first)
        left["connect"] = compacted(dump(relay.bootstrap, TOPICS))
        relay.fencepost(relay.turn(1))
        left["fencepost"] = compacted(dump(relay.bootstrap, TOPICS))
        starts = relay.connect(relay.turn(2), is_killed=True)
        if starts != 1:
            raise SystemExit(f"Kafka Connect came up at start {starts} after a clean stop of ours")
        relay.fencepost(relay.turn(3), is_killed=True)
        relay.connect(relay.last(4))
        verdicts = dict(relay.verdicts())
        print(*(f"{name}: {verdict}" for name, verdict in verdicts.items()), sep="\n")
        if not all(verdict.is_clean for verdict in verdicts.values()):
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
