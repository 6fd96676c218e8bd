from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.config.properties import parse_properties
from fencepost.rest.access.password import kept


def test_the_line_is_one_of_the_file_of_users() -> None:
    done = CliRunner().invoke(app, ["hash-password", "a: b#"], input="s3cret word\n")
    [(name, text)] = parse_properties(done.stdout).items()
    assert name == "a: b#"
    assert kept(text).is_same("s3cret word")
    assert "s3cret" not in done.output


def test_an_empty_password_is_refused() -> None:
    assert CliRunner().invoke(app, ["hash-password"], input="\n").exit_code == 1
