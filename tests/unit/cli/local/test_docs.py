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
def test_docs_prints_the_page_address_and_opens_no_browser_in_a_pipe(
    site: Path, monkeypatch: pytest.MonkeyPatch, named: list[str], file: str
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: pytest.fail(f"opened {url}"))
    done = CliRunner().invoke(app, ["docs", *named])
    assert (done.exit_code, done.stdout) == (0, f"{site.as_uri()}/{file}\n")


@pytest.mark.parametrize("word", ["secrets", "how-to/secret", "how-to/secretz"])
def test_docs_names_similar_pages_when_the_page_does_not_exist(site: Path, word: str) -> None:
    done = CliRunner().invoke(app, ["docs", word])
    assert done.exit_code == 1
    assert f"no page {word}; there is how-to/secrets" in done.stderr


def test_docs_names_the_build_command_when_pages_are_missing(site: Path) -> None:
    for page in site.rglob("*.html"):
        page.unlink()
    done = CliRunner().invoke(app, ["docs"])
    assert done.exit_code == 1
    assert "`make site`" in done.stderr
