"""The command line under test, in this process: `fencepost ARGUMENTS` with its output and exit code."""

from dataclasses import dataclass

from typer.testing import CliRunner

from fencepost.api.errors import ConnectError
from fencepost.cli.main import app
from fencepost.config import ConfigError


@dataclass(frozen=True)
class Ran:
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that it has printed."""
        return self.out + self.err


def fencepost(*arguments: object, typed: str | None = None, **environment: str) -> Ran:
    """Run a command. `typed`: its standard input, such as the answers to its questions."""
    done = CliRunner().invoke(app, [str(each) for each in arguments], input=typed, env=environment)
    error = done.exception
    if isinstance(error, ConfigError | ConnectError):  # as `main` does
        return Ran(1, done.stdout, f"{done.stderr}{error}\n")
    if error is not None and not isinstance(error, SystemExit):
        raise error
    return Ran(done.exit_code, done.stdout, done.stderr)
