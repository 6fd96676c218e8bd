"""`python -m demo`."""

import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from demo.run import Options, run


def main(
    kills: Annotated[bool, typer.Option(help="Kill the slot and the worker on the way.")] = True,
    keep: Annotated[bool, typer.Option(help="Keep the work directory: input, logs, Kafka's data.")] = False,
) -> None:
    """Move real data exactly once, through crashes, and print the ledger."""
    signal.signal(signal.SIGTERM, _end)
    sys.exit(run(Options(has_kills=kills, keeps_files=keep)))


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Let the processes below us be ended, as on Ctrl-C."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    typer.run(main)
