from typer.testing import CliRunner

from fencepost.cli.main import app
from fencepost.config.file import parse_properties
from fencepost.rest.access.basic import kept


def test_hash_password_prints_a_valid_line_of_the_users_file() -> None:
    done = CliRunner().invoke(app, ["hash-password", "a: b#"], input="s3cret word\n")
    [(name, text)] = parse_properties(done.stdout).items()
    assert name == "a: b#"
    assert kept(text).is_same("s3cret word")
    assert "s3cret" not in done.output


def test_hash_password_refuses_an_empty_password() -> None:
    assert CliRunner().invoke(app, ["hash-password"], input="\n").exit_code == 1
