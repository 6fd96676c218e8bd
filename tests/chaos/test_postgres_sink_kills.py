"""A Postgres sink whose tasks are killed, frozen and replaced, and whose server crashes, around each step of its work.

The verdict is by SQL against the list of records: of rows that are inserted none is missing and none is there twice; of
rows that are replaced and deleted the last state is right, and no row has ever gone back to an older value.
"""

import json
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fencepost.testing import eventually
from support.forked import Forked
from support.long_form import IS_LONG
from support.postgres import Postgres, running_postgres
from support.postgres_sink import DELETING, sql
from support.postgres_sink_life import FENCED, KILL, POINTS, RESTART, STOP, life, records

FAULTS = 100 if IS_LONG else 12  # of each mode
RECORDS = 60  # more for each fault
MODES = {"insert": {"auto.create": "true"}, "upsert": DELETING}
WITHIN_S = 120


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory)) as found,
    ):
        yield found


class Campaign:
    """Lives of one sink after each other. Each goes on with the log, which has grown."""

    def __init__(self, server: Postgres, directory: Path, mode: str, seed: int) -> None:
        self.topic = f"{mode}_{seed}"
        self._server, self._directory, self._seed = server, directory, seed
        self._mode = mode
        self.count = self._generation = 0

    @property
    def committed(self) -> Path:
        """The file with the group's offsets."""
        return self._directory / "committed.json"

    def start(self, point: str = "", action: str = "", hits: int = 1) -> Forked:
        self._generation += 1
        config = {
            "name": self.topic,
            "topics": self.topic,
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self._server.port}/postgres",
            "connection.user": "postgres",
            "batch.size": "15",
            **MODES[self._mode],
        }
        given = {
            "config": config, "seed": self._seed, "count": self.count, "generation": self._generation,
            "point": point, "action": action, "hits": hits, "committed": str(self.committed),
        }  # fmt: skip
        return Forked(life, [json.dumps(given)], self._directory / "lives.txt", {})

    def finish(self) -> None:
        """Let a task that nothing happens to write what is left."""
        assert self.start().wait(WITHIN_S) == 0, self.printed

    @property
    def printed(self) -> str:
        return (self._directory / "lives.txt").read_text()[-4000:]


def stopped(process: Forked) -> bool:
    """Wait until a process has stopped, and say so; False if it has ended without reaching that point."""

    def state() -> str | None:
        if process.poll() is not None:
            return "ended"
        return "stopped" if psutil.Process(process.pid).status() == psutil.STATUS_STOPPED else None

    return eventually(state, within_s=WITHIN_S) == "stopped"


def strike(campaign: Campaign, server: Postgres, point: str, action: str, hits: int) -> str:
    """Strike one life, and return what has become of it."""
    process = campaign.start(point, action, hits)
    if action == KILL:
        return f"ended with {process.wait(WITHIN_S)}"
    if not stopped(process):
        return f"ended with {process.wait(WITHIN_S)}, not struck"
    if action == STOP:
        campaign.finish()  # though the other process hangs where it is
    else:
        server.stop()
        server.start()
    process.send_signal(signal.SIGCONT)
    code = process.wait(WITHIN_S)
    assert code in ((0, FENCED) if action == STOP else (0,)), campaign.printed
    return f"went on and ended with {code}"


@pytest.mark.chaos
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.timeout(900 if not IS_LONG else 7200)
def test_no_fault_of_a_postgres_sink_loses_or_repeats_a_row(
    server: Postgres, tmp_path: Path, seed: int, mode: str, capfd: Any
) -> None:
    drawn, campaign = random.Random(seed), Campaign(server, tmp_path, mode, seed)
    if mode == "upsert":
        with_history(server, campaign.topic)
    plan = [(point, action) for point in POINTS for action in (KILL, STOP)]
    plan += [(point, RESTART) for point in drawn.sample(POINTS, 4)]
    drawn.shuffle(plan)
    with capfd.disabled():
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        for number in range(FAULTS):
            point, action = plan[number % len(plan)]
            campaign.count += RECORDS
            if drawn.randrange(4) == 0:
                campaign.committed.unlink(missing_ok=True)  # the group has lost its offsets
            done = strike(campaign, server, point, action, drawn.randrange(1, 4))
            print(f"{mode}: {action} at {point}: {done}", flush=True)
    campaign.finish()
    verdict(server, campaign, mode, seed)


def with_history(server: Postgres, table: str) -> None:
    """Create the table, and one with all values that its rows ever have."""
    sql(
        server,
        f'CREATE TABLE "{table}" (id int PRIMARY KEY, number int); '
        f'CREATE TABLE "{table}_history" (at bigserial, id int, number int); '
        f'CREATE FUNCTION "{table}_note"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN '
        f'INSERT INTO "{table}_history" (id, number) VALUES (NEW.id, NEW.number); RETURN NEW; END $$; '
        f'CREATE TRIGGER note AFTER INSERT OR UPDATE ON "{table}" FOR EACH ROW EXECUTE FUNCTION "{table}_note"()',
    )


def verdict(server: Postgres, campaign: Campaign, mode: str, seed: int) -> None:
    log = records(campaign.topic, seed, campaign.count)
    values = [record.value for own in log.values() for record in own if record.value is not None]
    rows = sql(server, f'SELECT id, number FROM "{campaign.topic}"')
    if mode == "insert":
        expected = Counter((value["id"], value["number"]) for value in values)
        assert Counter(rows) - expected == Counter(), "there twice"
        assert expected - Counter(rows) == Counter(), "missing"
        return
    last = {record.key["id"]: record.value for own in log.values() for record in own}
    assert dict(rows) == {key: value["number"] for key, value in last.items() if value is not None}
    history = sql(server, f'SELECT id, number FROM "{campaign.topic}_history" ORDER BY at')
    for key in last:
        own = [number for id_, number in history if id_ == key]
        assert own == sorted(set(own)), f"row {key} went back"
