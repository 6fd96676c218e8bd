"""Versions and ranges, as Maven has them."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config import ConfigError
from fencepost.config.connector import ConnectorConfig
from fencepost.config.version import VersionRequirement, compared, in_order, requirement_of

# From Maven's own description of its order, and what versions of connectors look like; each line from old to new.
CHAINS = (
    ("1.0-alpha-1", "1.0-alpha-2", "1.0-beta", "1.0-milestone", "1.0-rc1", "1.0-SNAPSHOT", "1.0", "1.0-sp", "1.0-x"),
    ("1", "1.1", "1.2", "1.10", "2"),
    ("1.0a1", "1.0b1", "1.0m1", "1.0-cr2", "1.0"),
    ("1-sp", "1-foo", "1-1", "1.1"),
    ("1.0.RC2", "1.0-RC3", "1.0.1"),
    ("3.5.0.Final", "3.6.0.Alpha1", "3.6.0.CR1", "3.6.0.Final", "3.6.1.Final"),
    ("0.1.0", "0.2.0.dev1", "0.2.1"),
    ("2.0-1", "2.0-2", "2.0.1"),
)
EQUAL = (
    ("1", "1.0"),
    ("1", "1.0.0"),
    ("1.0", "1.0-final"),
    ("1.0", "1-ga"),
    ("1.0.Final", "1.0"),
    ("1.0-cr1", "1.0-rc1"),
    ("1.0-alpha1", "1.0a1"),
    ("1.0.0-foo", "1-FOO"),
)


@pytest.mark.parametrize("chain", CHAINS)
def test_versions_are_in_mavens_order(chain: tuple[str, ...]) -> None:
    assert in_order(reversed(chain)) == list(chain)
    for position, older in enumerate(chain):
        assert all(compared(older, newer) < 0 < compared(newer, older) for newer in chain[position + 1 :])


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_trailing_zeros_and_final_do_not_change_a_version(one: str, other: str) -> None:
    assert compared(one, other) == compared(other, one) == 0


_VERSIONS = st.from_regex(r"\d{1,2}([.-](\d{1,2}|alpha|rc|sp|x)){0,3}", fullmatch=True)


@given(st.lists(_VERSIONS, min_size=3, max_size=3))
def test_version_order_is_total(versions: list[str]) -> None:
    a, b, c = in_order(versions)
    assert compared(a, b) <= 0
    assert compared(b, c) <= 0
    assert compared(a, c) <= 0
    assert compared(a, b) == -compared(b, a)


@pytest.mark.parametrize(
    ("text", "allowed", "refused"),
    [
        ("1.0", ["1.0", "1", "1.0.0"], ["1.0.1", "0.9"]),
        ("[1.0]", ["1.0"], ["1.1"]),
        (" 1.0 ", ["1.0"], ["1.1"]),
        ("[1.0,2.0)", ["1.0", "1.9.9"], ["0.9", "2.0"]),
        ("(1.0,2.0]", ["1.0.1", "2.0"], ["1.0", "2.0.1"]),
        ("[1.0,)", ["1.0", "99"], ["0.9", "1.0-rc1"]),
        ("(,1.0]", ["0.1", "1.0"], ["1.0.1"]),
        ("(,1.0),(1.0,)", ["0.9", "1.1"], ["1.0"]),
        ("[1,2],[4,5]", ["1.5", "5"], ["3"]),
        ("1.0,2.0", ["1.5"], ["3"]),
        ("[1.0,1.0]", ["1.0"], ["1.1"]),
    ],
)
def test_version_requirement_allows_and_refuses_versions(text: str, allowed: list[str], refused: list[str]) -> None:
    requirement = VersionRequirement(text)
    assert [requirement.allows(one) for one in allowed] == [True] * len(allowed)
    assert [requirement.allows(one) for one in refused] == [False] * len(refused)
    assert not requirement.allows(None)


@pytest.mark.parametrize("text", [None, "latest", " latest "])
def test_latest_is_no_version_requirement(text: str | None) -> None:
    assert requirement_of(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1.0", "Unbounded range"),
        ("[", "Unbounded range"),
        ("(1.0)", "Single version must be surrounded by []"),
        ("[]", "Single version must be surrounded by []"),
        ("[2,1]", "Range defies version ordering"),
        ("[1,1)", "Range defies version ordering"),
        ("[1,3],[2,4]", "Ranges overlap"),
        ("[1,],[2,4]", "Ranges overlap"),
        ("[1,2]x", "Only fully-qualified sets"),
        ("1.0]", "Only fully-qualified sets"),
        ("", "must not be empty"),
    ],
)
def test_invalid_version_requirement_is_refused_with_the_key(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ConnectorConfig.settings()["connector.plugin.version"].parse(text)
    assert str(caught.value).startswith(f"Invalid value {text} for configuration connector.plugin.version: {reason}")


RECORDED = json.loads((Path(__file__).parents[2] / "fixtures" / "connect-4.3.1" / "versions.json").read_text())


WORDS_AFTER_ZEROS = {
    ("00.beta.1", "0-1.01"),
    ("2.release-milestone.01", "2.snapshot-final-2"),
    ("00.b.02", "0.0-01"),
    ("2.cr", "2.dev-01"),
    ("00-1", "0.aa.9"),
    ("0-2", "000.milestone.snapshot"),
}
"""Pairs that Maven orders in another way: a word after a point and a zero, or a word with a number and one without."""


def test_versions_are_compared_as_maven_compares_them() -> None:
    """`tests/oracle/maven.py` recorded 600 pairs."""
    pairs = [one for one in RECORDED if not one[0].startswith(("[", "("))]
    found = [(a, b) for a, b, sign in pairs if (compared(a, b) > 0) - (compared(a, b) < 0) != int(sign)]
    assert len(pairs) == 600
    assert set(found) == WORDS_AFTER_ZEROS


def test_ranges_contain_the_same_versions_as_in_maven() -> None:
    ranges = [one for one in RECORDED if one[0].startswith(("[", "(")) and one[0] != "(,1-milestone)"]
    assert len(ranges) == 199
    for text, version, answer in ranges:
        if answer in ("true", "false"):
            assert VersionRequirement(text).allows(version) is (answer == "true"), (text, version)
        else:
            with pytest.raises(ValueError, match=re.escape(answer.partition(":")[0])):
                VersionRequirement(text)
