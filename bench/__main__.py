"""`python -m bench PART...`: run parts of the bench, all of them by default, and render the page of their results."""

import importlib
import os
import signal
import sys
import time
import zipfile
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import pyspark
import typer

from bench import page, plot, readme
from bench.options import Options, say
from bench.result import COMMITTED
from fencepost.spark.session.archive_making import ensure_archive

_QUICK_RESULTS = Path("build/bench")


def main(
    parts: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(page.PARTS)}, page; all by default.")] = None,
    quick: Annotated[bool, typer.Option(help="Small sizes, one turn: to try it out.")] = False,
    count: Annotated[int, typer.Option(help="The size of the part (lines, samples); 0: its own.")] = 0,
    rounds: Annotated[int, typer.Option(help="Turns of each side; 0: the part's own.")] = 0,
    side: Annotated[str, typer.Option(help="Only this side: fencepost or connect.")] = "",
    case: Annotated[list[str] | None, typer.Option(help="Only these cases of a part.")] = None,
    add: Annotated[int, typer.Option(help="Add to a result that has had so many turns already.")] = 0,
    ours: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE for our connectors, or worker, alone: to try it out.")
    ] = None,
    profile: Annotated[Path | None, typer.Option(help="Sample our Python processes; profiles go there.")] = None,
    keep: Annotated[bool, typer.Option(help="Keep the work directory: input, settings, logs.")] = False,
) -> None:
    """Race Fencepost with Kafka Connect and write docs/explanation/benchmarks.md."""
    signal.signal(signal.SIGTERM, _end)
    if profile is not None:
        _sample_into(profile)
    options = Options(
        quick, count, rounds, add, side, tuple(case or ()), keep, dict(each.split("=", 1) for each in ours or ())
    )
    unknown = set(parts or ()) - {*page.PARTS, "page"}
    if unknown:
        raise typer.BadParameter(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(page.PARTS)}")
    if set(parts or page.PARTS) != {"page"}:
        _use_pyspark_as_installed()
        ensure_archive()  # a worker makes one after a minute, which few of the bench's workers live
    for part in parts or page.PARTS:
        if part != "page":
            _run(part, options)
    if not parts or "page" in parts:
        say(f"written: {page.write()}")
        readme.write(page.load(COMMITTED))
        plot.write(page.load(COMMITTED))


def _use_pyspark_as_installed() -> None:
    """Undo what `make test` does to start Spark's Python sooner (tests/support/spark_python.py)."""
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    plain = archive.with_suffix(".plain")
    with zipfile.ZipFile(archive) as found:
        sources = [info for info in found.infolist() if not info.filename.endswith(".pyc")]
        if len(sources) < len(found.namelist()):
            with zipfile.ZipFile(plain, "w") as added:
                for info in sources:
                    added.writestr(info, found.read(info))
            plain.replace(archive)


def _run(part: str, options: Options) -> None:
    say(f"== {part}")
    began = time.monotonic()
    result = importlib.import_module(f"bench.{part}").run(options)
    result.seconds = round(time.monotonic() - began, 1)
    directory = _QUICK_RESULTS if options.is_partial else COMMITTED
    if options.first or options.cases:
        result.merge(directory, is_adding=bool(options.first))
    path = result.write(directory)
    for row in filter(lambda each: each.is_measured, result.rows):
        for line in row.show():
            say(line)
    say(f"== {part}: {result.seconds:.0f} s, {path}")


def _sample_into(directory: Path) -> None:
    """Every Python process that is started from now on imports `bench/sampling/sitecustomize.py`."""
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["FENCEPOST_BENCH_PROFILE"] = str(directory.resolve())
    sampling = str(Path(__file__).parent / "sampling")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (sampling, os.environ.get("PYTHONPATH"))))


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Let everything below us be ended, as on Ctrl-C."""
    sys.exit(128 + number)


if __name__ == "__main__":
    typer.run(main)
