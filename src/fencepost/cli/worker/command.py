"""`fencepost worker` and `fencepost dev`, with their options."""

from pathlib import Path
from typing import Annotated

import typer


def worker(
    properties: Annotated[Path, typer.Argument(help="Kafka Connect's distributed worker file.", metavar="FILE")],
) -> None:
    """Run a worker: REST, leader, connectors, and the Spark driver."""
    from fencepost.cli.worker.run import run_worker

    raise typer.Exit(run_worker(properties))


def dev(
    port: Annotated[int, typer.Option(help="Port of the REST API.")] = 8083,
    kafka_port: Annotated[int, typer.Option(help="Port of the embedded Kafka; 0: any free one.")] = 9092,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep Kafka's data here; without it they are deleted at the end.")
    ] = None,
    plugin_path: Annotated[
        list[Path] | None,
        typer.Option(
            "--plugin-path",
            metavar="DIR",
            help="A directory with plug-ins; repeatable. That of `plugin install` is searched, too.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="A worker setting; repeatable.")
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start the worker again when a file of a plug-in changes; Kafka stays.")
    ] = False,
    at: Annotated[str | None, typer.Option("--at", hidden=True, help="The Kafka of the process that reloads.")] = None,
) -> None:
    """Run a worker with a Kafka of its own and exactly-once on; needs no configuration."""
    from fencepost.cli.worker.run import run_dev

    raise typer.Exit(
        run_dev(port, kafka_port, directory, setting or [], plugin_path or [], is_reloading=reload, brokers=at)
    )
