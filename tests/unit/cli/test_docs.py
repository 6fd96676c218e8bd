"""`fencepost docs`: the pages that a wheel has."""

import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fencepost.guide
from fencepost.cli.main import app


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for page in ("index", "how-to/operate", "how-to/secrets", "decisions/index"):
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / f"{page}.html").write_text(page)
    monkeypatch.setattr(fencepost.guide, "SITE", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("named", "file"),
    [
        ([], "index.html"),
        (["how-to/operate"], "how-to/operate.html"),
        (["docs/how-to/operate.md#start"], "how-to/operate.html#start"),
        (["decisions"], "decisions/index.html"),
    ],
)
def test_docs_prints_where_a_page_is_and_opens_none_for_a_program(
    site: Path, monkeypatch: pytest.MonkeyPatch, named: list[str], file: str
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: pytest.fail(f"opened {url}"))
    done = CliRunner().invoke(app, ["docs", *named])
    assert (done.exit_code, done.stdout) == (0, f"{site.as_uri()}/{file}\n")


@pytest.mark.parametrize("word", ["secrets", "how-to/secret", "how-to/secretz"])
def test_docs_names_similar_pages_when_there_is_none_of_the_name(site: Path, word: str) -> None:
    done = CliRunner().invoke(app, ["docs", word])
    assert done.exit_code == 1
    assert f"no page {word}; there is how-to/secrets" in done.stderr


def test_docs_names_the_command_that_makes_pages_when_they_were_not_built(site: Path) -> None:
    for page in site.rglob("*.html"):
        page.unlink()
    done = CliRunner().invoke(app, ["docs"])
    assert done.exit_code == 1
    assert "`make site`" in done.stderr
