"""`fencepost hash-password`: a hash of a password for the file of users of the REST API."""

import sys
from typing import Annotated

import typer


def hash_password(
    user: Annotated[
        str | None, typer.Argument(help="Print a whole line for this user.", metavar="USER", show_default=False)
    ] = None,
) -> None:
    """Print a hash for `rest.basic.users.file`. The password is asked for, or read from standard input."""
    from fencepost.rest.access.password import hashed

    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        typer.echo("The password is empty.", err=True)
        raise typer.Exit(1)
    typer.echo(hashed(password) if user is None else f"{_escaped(user)}={hashed(password)}")


def _escaped(key: str) -> str:
    """Return a key as `.properties` files have it."""
    return "".join(f"\\{c}" if c in "\\=: \t#!" else c for c in key)
