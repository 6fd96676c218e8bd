"""References to config providers, which nobody looks up."""

import pytest

from fencepost.config import ConfigError
from fencepost.config.reference import check_references, reference_faults


@pytest.mark.parametrize(
    "value",
    [
        "${file:/secrets.properties:password}",
        "${env:PASSWORD}",
        "${directory:/run/secrets:password}",
        "${vault:path/with:many:colons}",
        "a${secretManager:password}b",
        "${topic} ${env:X}",
    ],
)
def test_a_reference_is_refused_with_its_key_and_what_to_do(value: str) -> None:
    faults = reference_faults({"topic": value, "plain": "x"})
    assert faults.keys() == {"topic"}
    assert "configuration topic: ${" in faults["topic"]
    assert "refers to a config provider. No provider resolves it" in faults["topic"]
    assert faults["topic"].endswith("write the value itself")


@pytest.mark.parametrize(
    "value", ["", "${topic}", "${topic}:${x}", "$1:$2", "${name}-${1}", "$:{a:b}", "{a:b}", "${a", None]
)
def test_other_placeholders_stay(value: str | None) -> None:
    check_references({"topic": value})


def test_what_stands_beside_a_reference_is_not_shown() -> None:
    text = reference_faults({"sasl.jaas.config": 'username="me" password="s3cret${file:/x:y}";'})["sasl.jaas.config"]
    assert "${file:…}" in text
    assert "s3cret" not in text


def test_what_spark_looks_up_in_its_own_settings_stays() -> None:
    check_references({"spark.local.dir": "${env:HOME}/${system:user.name}"})
    with pytest.raises(ConfigError, match=r"spark\.hadoop\.fs\.s3a\.secret\.key: \$\{file:/x:y\} refers"):
        check_references({"spark.hadoop.fs.s3a.secret.key": "${file:/x:y}"})
