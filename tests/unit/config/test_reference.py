"""References to config providers in values of configs."""

import pytest

from fencepost.config.reference import has_references, references, replaced


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("${file:/secrets.properties:password}", ("file", "/secrets.properties", "password")),
        ("${env:PASSWORD}", ("env", "", "PASSWORD")),
        ("${vault:path/with:many:colons}", ("vault", "path/with", "many:colons")),
        ("a${secretManager:password}b", ("secretManager", "", "password")),
        ("${topic} ${env:X}", ("env", "", "X")),
    ],
)
def test_reference_is_split_into_provider_path_and_key(value: str, parts: tuple[str, str, str]) -> None:
    (found,) = references("topic", value)
    assert (found.provider, found.path, found.key) == parts
    assert found.text in value


@pytest.mark.parametrize(
    "value", ["", "${topic}", "${topic}:${x}", "$1:$2", "${name}-${1}", "$:{a:b}", "{a:b}", "${a", None, 7]
)
def test_placeholder_of_another_form_is_no_reference(value: object) -> None:
    assert not has_references({"topic": value})


def test_text_around_a_reference_is_not_shown() -> None:
    value = 'username="me" password="s3cret${file:/x:y}";'
    (found,) = references("sasl.jaas.config", value)
    assert found.shown_in(value) == "${file:…}"
    assert found.shown_in(" ${file:/x:y} ") == "${file:/x:y}"


def test_placeholders_that_spark_resolves_itself_are_not_replaced() -> None:
    assert not has_references({"spark.local.dir": "${env:HOME}/${system:user.name}"})
    assert has_references({"spark.hadoop.fs.s3a.secret.key": "${file:/x:y}"})
    found = replaced("spark.a", "${env:HOME} ${file:/x:y}", {"${env:HOME}": "no", "${file:/x:y}": "yes"})
    assert found == "${env:HOME} yes"


def test_only_references_with_a_value_are_replaced() -> None:
    assert replaced("a", "${env:A}-${env:B}", {"${env:A}": r"\1${topic}"}) == r"\1${topic}-${env:B}"
