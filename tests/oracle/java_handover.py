"""Java sources of `plugin.path` in the turns of `live_handover.py`: Fencepost has no classes of its own for them."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from bench.postgres import NoPostgresError, Postgres, debezium, running_postgres

from fencepost.testing import eventually, judge
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Sequenced, Verdict
from oracle.handover import Watched
from support.jars import SOURCE
from support.java_plugins import STRING, compile_plugins

_PATIENCE_S = 400.0
_STRINGS = {"key.converter": STRING, "value.converter": STRING}


class JavaSource(Protocol):
    """A connector in these turns."""

    name: str
    tasks: int

    def create(self, cluster: Watched) -> None:
        """Ask the first worker for it, and wait until it delivers."""

    def go_on(self, cluster: Watched) -> None:
        """Wait, in each later turn, until it has delivered more."""

    def finish(self, cluster: Watched) -> None:
        """Wait, in the last turn, for what no later one could deliver."""

    def judged(self, cluster: Watched) -> Verdict:
        """Return the verdict; nothing runs any more."""


class Numbers:
    """A source of the tests that counts in each task, and never ends; all turns end while it does."""

    tasks = 2

    def __init__(self, boundary: str) -> None:
        """`boundary`: its `transaction.boundary`."""
        self.name = f"numbers-by-{boundary}"
        self._boundary = boundary

    def create(self, cluster: Watched) -> None:
        own = {"connector.class": "tests.NumberSourceConnector", "topic": self.name, "tasks.max": str(self.tasks)}
        own |= {"count": str(10**9), "pause.ms": "50", "transaction.boundary": self._boundary}
        cluster.create(self.name, own | _STRINGS)
        cluster.await_progress(self.name, self.tasks)

    def go_on(self, cluster: Watched) -> None:
        cluster.await_progress(self.name, self.tasks)

    def finish(self, cluster: Watched) -> None:
        """Whatever it has not delivered has no offset, either."""

    def judged(self, cluster: Watched) -> Verdict:
        expected = {part: range(1, last + 1) for part, last in cluster.offsets(self.name).items()}
        return judge(expected, cluster.visible(self.name), sighting=self._sighting)

    @staticmethod
    def _sighting(record: Observation) -> Sequenced:
        part, number = (record.value or b"").decode().split(":")
        return part, int(number)


class Orders:
    """Debezium's source for a table of Postgres. The last rows of each turn may be those that the next one finds."""

    name = "debezium"
    tasks = 1
    _topic = "shop.public.orders"

    def __init__(self, database: Postgres) -> None:
        self._database = database
        self._rows = 0

    def create(self, cluster: Watched) -> None:
        self._database.sql("create table orders (id integer primary key)")
        self._insert(500)
        own = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": str(self.tasks),
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": str(self._database.port),
            "database.user": "postgres",
            "database.password": "nothing",
            "database.dbname": "postgres",
            "topic.prefix": "shop",
            "table.include.list": "public.orders",
            "exactly.once.support": "required",
            "transforms": "unwrap",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }
        cluster.create(self.name, own)
        self._await_rows(cluster)
        self.go_on(cluster)

    def go_on(self, cluster: Watched) -> None:
        self._insert(200)
        self._await_rows(cluster)
        self._insert(200)

    def finish(self, cluster: Watched) -> None:
        self._await_rows(cluster)

    def judged(self, cluster: Watched) -> Verdict:
        return judge({"orders": range(self._rows)}, cluster.visible(self._topic), sighting=self._sighting)

    def _insert(self, count: int) -> None:
        last = self._rows + count - 1
        self._database.sql(f"insert into orders select * from generate_series({self._rows}, {last})")
        self._rows += count

    def _await_rows(self, cluster: Watched) -> None:
        with CommittedReader(cluster.bootstrap, [self._topic]) as reader:
            eventually(lambda: len(reader.seen()) >= self._rows, within_s=_PATIENCE_S)

    @staticmethod
    def _sighting(record: Observation) -> Sequenced:
        return "orders", json.loads(record.value or b"{}")["id"]


@contextmanager
def java_sources(plugin_path: Path, of_server: Path) -> Iterator[list[JavaSource]]:
    """Fill a directory for `plugin.path`, and return its sources: Debezium's is one where Postgres is installed.

    Args:
        of_server: where the files of Postgres are.
    """
    compile_plugins(plugin_path / "numbers")
    services = plugin_path / "numbers" / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / SOURCE).write_text("tests.NumberSourceConnector\n")
    found: list[JavaSource] = [Numbers("poll"), Numbers("connector")]
    with ExitStack() as stack:
        try:
            found.append(Orders(stack.enter_context(running_postgres(of_server))))
            debezium(plugin_path)
        except NoPostgresError as error:
            print(f"Debezium is not among the connectors: {error}", flush=True)
        yield found
