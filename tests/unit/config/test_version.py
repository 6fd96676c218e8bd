"""Versions and ranges, as Maven has them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config import ConfigError
from fencepost.config.version import VersionRequirement, check_version, compared, in_order, requirement_of

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
def test_zeros_and_final_mean_nothing_at_the_end(one: str, other: str) -> None:
    assert compared(one, other) == compared(other, one) == 0


_VERSIONS = st.from_regex(r"\d{1,2}([.-](\d{1,2}|alpha|rc|sp|x)){0,3}", fullmatch=True)


@given(st.lists(_VERSIONS, min_size=3, max_size=3))
def test_the_order_is_total(versions: list[str]) -> None:
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
    ],
)
def test_a_requirement_allows_versions(text: str, allowed: list[str], refused: list[str]) -> None:
    requirement = VersionRequirement(text)
    assert [requirement.allows(one) for one in allowed] == [True] * len(allowed)
    assert [requirement.allows(one) for one in refused] == [False] * len(refused)
    assert not requirement.allows(None)


@pytest.mark.parametrize("text", [None, "latest", " latest "])
def test_nothing_is_required_by_the_latest(text: str | None) -> None:
    assert requirement_of(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1.0", "Unbounded range"),
        ("[", "Unbounded range"),
        ("(1.0)", "Single version must be surrounded by []"),
        ("[]", "Single version must be surrounded by []"),
        ("[2,1]", "Range defies version ordering"),
        ("[1,1]", "Range cannot have identical boundaries"),
        ("[1,3],[2,4]", "Ranges overlap"),
        ("[1,],[2,4]", "Ranges overlap"),
        ("[1,2]x", "Only fully-qualified sets"),
        ("1.0]", "Only fully-qualified sets"),
        ("", "must not be empty"),
    ],
)
def test_what_is_no_requirement_is_refused_with_the_key(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_version("connector.plugin.version", text)
    assert str(caught.value).startswith(f"Invalid value {text} for configuration connector.plugin.version: {reason}")
