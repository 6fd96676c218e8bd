"""`/docs/guide`: the pages of the documentation, served as files that cannot reach anything else."""

import base64
import hashlib
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fencepost.rest.resources import guide

SCRIPT = "document.title"
PAGE = f'<script>{SCRIPT}</script><script id="c" type="application/json">{{}}</script>'


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "site"
    (found / "how-to").mkdir(parents=True)
    (found / "index.html").write_text("first")
    (found / "how-to/operate.html").write_text(PAGE)
    (found / "style.css").write_text("p {}")
    (tmp_path / "secret.css").write_text("elsewhere")
    monkeypatch.setattr(guide, "SITE", found)
    return found


def test_guide_leads_to_its_first_page(client: TestClient) -> None:
    for path in ("/docs/guide", "/docs/guide/"):
        answer = client.get(path)
        assert (answer.status_code, answer.text, answer.url.path) == (200, "first", "/docs/guide/index.html")


def test_guide_page_may_run_its_own_scripts_and_load_nothing_from_elsewhere(client: TestClient) -> None:
    answer = client.get("/docs/guide/how-to/operate.html")
    assert (answer.text, answer.headers["content-type"]) == (PAGE, "text/html; charset=utf-8")
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert f"script-src 'self' 'sha256-{digest}'" in policy
    assert "http" not in "".join(policy)


def test_guide_has_styles(client: TestClient) -> None:
    assert client.get("/docs/guide/style.css").headers["content-type"] == "text/css; charset=utf-8"


@pytest.mark.parametrize(
    "path", ["../secret.css", "%2e%2e/secret.css", "..%2Fsecret.css", "none.html", "how-to", "%00.css"]
)
def test_guide_serves_no_files_outside_the_site(client: TestClient, path: str) -> None:
    answer = client.get(f"/docs/guide/{path}")
    assert answer.status_code == 404
    assert "elsewhere" not in answer.text


def test_guide_names_the_make_target_when_its_pages_are_not_built(client: TestClient, site: Path) -> None:
    for file in ("index.html", "how-to/operate.html", "style.css"):
        (site / file).unlink()
    answer = client.get("/docs/guide/index.html")
    assert answer.status_code == 404
    assert "`make site`" in answer.json()["message"]
