"""`fencepost adopt`, with its options."""

from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.output import JsonForm, TextOrJson


def adopt(
    group: Annotated[
        str, typer.Argument(help="The program's group.id; for Kafka Streams, its application.id.", metavar="GROUP")
    ],
    properties: Annotated[
        Path | None,
        typer.Option(help="A file with the settings of Kafka clients, such as a worker's own.", metavar="FILE"),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option(help="Kafka's bootstrap servers. Default: the file's, or 127.0.0.1:9092.")
    ] = None,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            help="A prefix of the program's transactional ids, in addition to those that Kafka's log names. All ids "
            "with this prefix are fenced; repeatable."
        ),
    ] = None,
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            help="A prefix of other programs' transactional ids that look like this program's, and are not fenced; "
            "if --prefix matches, too, the longer one counts; repeatable."
        ),
    ] = None,
    remove_members: Annotated[
        bool,
        typer.Option(
            "--remove-members", help="Remove members that are still in the group: of processes that are gone, or hang."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the state, and change nothing.")] = False,
    output: JsonForm = TextOrJson.TEXT,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for transactions that cannot be ended.", min=1)
    ] = 60.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Take over a group that another program has processed exactly once, so that a stream connector can continue.

    Shows members, positions, producers and open transactions, and which belong together. Then it fences the producers:
    nothing of the program, whether it has ended or hangs, can be committed any more.
    """
    from fencepost.cli.adopt.takeover import Options, take_over
    from fencepost.cli.client import client_properties

    options = Options(
        client_properties(properties, bootstrap),
        tuple(prefix or ()),
        tuple(foreign or ()),
        removes_members=remove_members,
        is_dry=dry_run,
        as_json=output is TextOrJson.JSON,
        is_confirmed=yes,
        timeout_s=timeout,
    )
    take_over(group, options)
