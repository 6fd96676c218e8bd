"""`fencepost audit`, with its options."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.completion import ConnectorName
from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import Form, Output
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


@on_worker
def audit(
    connect: "Connect",
    connector: ConnectorName,
    properties: Annotated[
        Path | None,
        typer.Option(help="A file with the settings of Kafka clients, such as the worker's own.", metavar="FILE"),
    ] = None,
    source_properties: Annotated[
        Path | None,
        typer.Option(
            help="A file with settings of the clients of a mirror's source, which replace those of its config.",
            metavar="FILE",
        ),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(help="Kafka's bootstrap servers. Default: the connector's, the file's, or the worker's."),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="The ledger's topic. Default: the config's; with it, no worker is asked.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Compare only this topic. Repeatable.")] = None,
    wait: Annotated[float, typer.Option(help="For how many seconds to wait for open transactions.", min=0)] = 10.0,
    output: Form = Output.TABLE,
) -> None:
    """Compare both ends of a connector, and name the first offset that differs.

    Of a source: the topics that it has written to, and its ledger. Of a FilesSink: the topics that it reads, and the
    files that it has written, which must be on this machine. Of a mirror: the topics of both clusters. Exit codes: 0
    both are the same, 1 something differs, 2 not everything could be compared.
    """
    from fencepost.api.errors import ConnectError
    from fencepost.cli.audit.report import INCOMPLETE, code_of, print_report
    from fencepost.cli.audit.scope import Given, Progress, audit_of
    from fencepost.config import ConfigError

    try:
        given = Given(properties, source_properties, bootstrap, (lambda: None) if ledger else connect.brokers)
        with closing(audit_of(connect, connector, given, ledger, wait_s=wait)) as made:
            report = made.run(topic or (), Progress())
    except ConfigError:
        raise
    except ConnectError as error:
        typer.echo(printable(str(error)), err=True)
        raise typer.Exit(INCOMPLETE) from None
    print_report(report, output)
    raise typer.Exit(code_of(report))
