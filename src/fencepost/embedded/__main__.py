"""`fencepost kafka`, which is also `python -m fencepost.embedded`: a Kafka at the command line."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from fencepost.embedded.broker import EmbeddedKafka
from fencepost.embedded.error import EmbeddedKafkaError
from fencepost.embedded.home import KAFKA_VERSION

app = typer.Typer(help="An Apache Kafka of one node, for development.", no_args_is_help=True)

_CHECK_S = 0.5


@app.callback()
def _kafka() -> None:
    """Keep `start` a subcommand: the only command of an app would otherwise be the app itself."""


@app.command()
def start(
    port: Annotated[int, typer.Option(help="Where clients connect; 0 takes any free port.")] = 9092,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep data here. Without it, they are deleted when Kafka stops.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="A broker setting; repeatable.")
    ] = None,
) -> None:
    """Run Kafka until Ctrl-C; prints the bootstrap address when it is ready."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    kafka = EmbeddedKafka(port, directory, dict(_pair(text) for text in properties or []))
    try:
        with kafka:
            kept = f"data in {directory}" if directory else "its data are deleted when it stops"
            typer.echo(f"Kafka {KAFKA_VERSION} is ready, {kept}; Ctrl-C stops it. Its log: {kafka.log}", err=True)
            typer.echo(kafka.bootstrap_servers)
            while not stop.wait(_CHECK_S):
                if not kafka.is_running:
                    raise EmbeddedKafkaError(f"Kafka ended by itself. It printed:\n{kafka.last_lines()}")
    except EmbeddedKafkaError as error:
        typer.secho(str(error), fg=typer.colors.RED, err=True)
        raise typer.Exit(1) from None


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--property")
    return key.strip(), value.strip()


if __name__ == "__main__":
    app()
