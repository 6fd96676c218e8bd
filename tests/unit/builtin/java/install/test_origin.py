"""What a user may name, and what is said of anything else."""

from pathlib import Path

import pytest

from fencepost.builtin.java.install.known import InstallError
from fencepost.builtin.java.install.origin import Archive, Coordinates, HubPlugin, Origin, origin_of


def test_coordinates_are_read_and_have_one_identity_for_all_versions() -> None:
    found = origin_of("io.debezium:debezium-connector-postgres:3.6.1.Final")
    assert found == Coordinates("io.debezium", "debezium-connector-postgres", "3.6.1.Final")
    assert (str(found), found.identity) == (
        "io.debezium:debezium-connector-postgres:3.6.1.Final",
        "io.debezium:debezium-connector-postgres",
    )


@pytest.mark.parametrize(
    ("url", "stem"),
    [
        ("https://host/a/debezium-3.6.1.Final-plugin.tar.gz", "debezium-3.6.1.Final-plugin"),
        ("https://host/confluentinc-kafka-connect-jdbc-10.7.4.zip", "confluentinc-kafka-connect-jdbc"),
        ("https://host/prices-v1.2.tgz?X-Signature=abc", "prices"),
        ("https://host/2.zip", "2"),
        ("https://host/iceberg-kafka-connect-runtime-1.12.0.jar", "iceberg-kafka-connect-runtime"),
    ],
)  # fmt: skip
def test_archive_is_named_after_its_file_without_the_version(url: str, stem: str) -> None:
    found = origin_of(url)
    assert isinstance(found, Archive)
    assert found.stem == stem


def test_neither_password_nor_signature_of_a_url_is_shown() -> None:
    found = origin_of("https://me:hunter2@host:8443/plugins/prices.zip?token=hunter3#x")
    assert str(found) == "https://host:8443/plugins/prices.zip"
    assert "hunter" not in repr(found)
    with pytest.raises(InstallError) as caught:
        origin_of("https://me:hunter2@host/plugins/prices?token=hunter3")
    assert "hunter" not in str(caught.value)


def test_archive_path_must_be_an_existing_file(tmp_path: Path) -> None:
    (tmp_path / "prices.zip").touch()
    assert origin_of(str(tmp_path / "prices.zip")) == Archive(str(tmp_path / "prices.zip"))
    with pytest.raises(InstallError, match=r"gone.zip is not a file"):
        origin_of(str(tmp_path / "gone.zip"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("debezium", "debezium is neither GROUP:ARTIFACT:VERSION"),
        ("a:b:c:d:e", "is neither GROUP:ARTIFACT:VERSION"),
        ('a:b:1"/><dependency org="c', "is neither GROUP:ARTIFACT:VERSION"),
        ("a:b:[1,2)", "is neither GROUP:ARTIFACT:VERSION"),
        ("ftp://host/prices.zip", "only http and https are supported"),
    ],
)  # fmt: skip
def test_malformed_plugin_origin_is_refused(text: str, message: str) -> None:
    with pytest.raises(InstallError) as caught:
        origin_of(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sha256", "message"),
    [
        ("http://host/prices.zip", None, "anybody in the network can replace it"),
        ("https://host/prices.zip", "abc", "is not a SHA-256"),
        ("g:a:1.0", "a" * 64, "is for an archive"),
        ("g:a:1.+", None, "another version tomorrow"),
        ("g:a:LATEST", None, "another version tomorrow"),
        ("g:a:latest.release", None, "another version tomorrow"),
    ],
)
def test_origin_without_tls_fixed_version_or_valid_checksum_is_refused(
    text: str, sha256: str | None, message: str
) -> None:
    with pytest.raises(InstallError, match=message):
        origin_of(text, sha256)


def test_plugin_at_a_url_without_tls_is_taken_with_its_checksum() -> None:
    assert origin_of("http://host/prices.zip", "A" * 64) == Archive("http://host/prices.zip", "a" * 64)
    assert origin_of("http://127.0.0.1:8000/prices.zip") == Archive("http://127.0.0.1:8000/prices.zip")


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("io.debezium:postgres", Coordinates("io.debezium", "postgres")),
        ("debezium-connector-postgres", Coordinates("io.debezium", "debezium-connector-postgres")),
        ("debezium-connector-mysql:3.6.1.Final", Coordinates("io.debezium", "debezium-connector-mysql", "3.6.1.Final")),
        ("kafka-connect-jdbc", HubPlugin("confluentinc", "kafka-connect-jdbc")),
        ("confluentinc/kafka-connect-jdbc:10.8.4", HubPlugin("confluentinc", "kafka-connect-jdbc", "10.8.4")),
        ("confluentinc/kafka-connect-jdbc:latest", HubPlugin("confluentinc", "kafka-connect-jdbc")),
    ],
)  # fmt: skip
def test_known_plugin_is_found_without_group_owner_or_version(text: str, origin: Origin) -> None:
    assert origin_of(text) == origin


def test_archive_of_the_hub_is_at_its_url() -> None:
    plugin = origin_of("confluentinc/kafka-connect-jdbc:10.8.4", "A" * 64)
    assert isinstance(plugin, HubPlugin)
    assert plugin.archive == Archive(
        "https://hub-downloads.confluent.io/api/plugins/confluentinc/kafka-connect-jdbc/versions/10.8.4/"
        "confluentinc-kafka-connect-jdbc-10.8.4.zip",
        "a" * 64,
    )
