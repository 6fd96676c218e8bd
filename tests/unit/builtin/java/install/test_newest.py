"""The origin version, from a Maven repository and from Confluent's Hub."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fencepost.builtin.java.install import origin
from fencepost.builtin.java.install.known import InstallError
from fencepost.builtin.java.install.origin import Archive, Coordinates, HubPlugin, with_version
from support.http_answers import Answer, Asked, HttpAnswers

VERSIONS = ("3.6.0.Final", "3.7.0.Alpha1", "3.10.1.Final", "3.10.2.CR1", "3.9.9.Final", "4.0.0.Beta2", "4.0-SNAPSHOT")
METADATA = "<metadata><versioning><release>4</release><versions>{}</versions></versioning></metadata>"
PRICES = Coordinates("org.example", "prices")


def metadata(*versions: str) -> str:
    return METADATA.format("".join(f"<version>{one}</version>" for one in versions))


def answer(asked: Asked) -> Answer:
    answers = {
        "/maven/org/example/prices/maven-metadata.xml": metadata(*VERSIONS),
        "/maven/org/example/early/maven-metadata.xml": metadata("1.0-rc1"),
        "/hub/acme/prices": {"version": "2.1", "name": "prices"},
        "/hub/acme/odd": [],
    }
    return Answer(answers[asked.path]) if asked.path in answers else Answer("", 404)


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with HttpAnswers(answer) as served:
        monkeypatch.setattr(origin, "_HUB", f"{served.url}/hub")
        yield served.url


def test_newest_release_is_taken_from_the_repository(url: str) -> None:
    assert with_version(PRICES, f"{url}/maven/") == Coordinates("org.example", "prices", "3.10.1.Final")


def test_newest_release_is_taken_from_a_directory(tmp_path: Path) -> None:
    (tmp_path / "org/example/prices").mkdir(parents=True)
    (tmp_path / "org/example/prices/maven-metadata.xml").write_text(metadata("1.0", "1.1"))
    assert with_version(PRICES, tmp_path.as_uri()) == Coordinates("org.example", "prices", "1.1")


def test_newest_release_is_taken_from_the_hub(url: str) -> None:
    assert with_version(HubPlugin("acme", "prices", sha256="a")) == HubPlugin("acme", "prices", "2.1", "a")


def test_newest_release_is_not_taken_over_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    def redirected(url: str, **_: object) -> httpx.Response:
        found = httpx.Response(200, text=metadata("1.0"), request=httpx.Request("GET", "http://repo.example/m"))
        found.history = [httpx.Response(302, request=httpx.Request("GET", url))]
        return found

    monkeypatch.setattr(httpx, "get", redirected)
    with pytest.raises(InstallError, match=r"is redirected to plain http, .* write org.example:prices:VERSION"):
        with_version(PRICES)


@pytest.mark.parametrize("origin", [Coordinates("g", "a", "1"), HubPlugin("o", "n", "1"), Archive("/a.zip")])
def test_version_that_is_given_is_not_looked_up(origin: Coordinates | HubPlugin | Archive) -> None:
    assert with_version(origin) is origin


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (Coordinates("org.example", "gone"), "gone/maven-metadata.xml answered 404. Check the name, or write org.exa"),
        (Coordinates("org.example", "early"), "names no version but previews: write the one that you want"),
        (HubPlugin("acme", "gone"), "/hub/acme/gone answered 404. Check the name, or write acme/gone:VERSION"),
        (HubPlugin("acme", "odd"), "/hub/acme/odd could not be read (TypeError)"),
    ],
)  # fmt: skip
def test_version_that_is_not_known_is_an_error(url: str, origin: Coordinates | HubPlugin, words: str) -> None:
    with pytest.raises(InstallError) as caught:
        with_version(origin, f"{url}/maven")
    assert words in str(caught.value)
