import pytest

from fencepost.config import ConfigError
from fencepost.rest.access.principal import EVERYTHING, Principal, Role, Rules, parse_rules

TEXT = """
# who                      role     connectors
user:alice                 admin    *
group:ops                  operate  *
user:'CN=bob, O=Acme'      edit     orders-*   # with blanks
user:bob                   EDIT     orders-?
anyone                     view     public
"""


@pytest.fixture
def rules() -> Rules:
    return parse_rules(TEXT, "roles")


@pytest.mark.parametrize(
    ("name", "groups", "role", "connector", "expected"),
    [
        ("alice", (), Role.ADMIN, "anything", True),
        ("Alice", (), Role.VIEW, "anything", False),
        ("carol", ("ops",), Role.OPERATE, "anything", True),
        ("carol", ("ops",), Role.EDIT, "anything", False),
        ("carol", ("op", "opss"), Role.VIEW, "anything", False),
        ("ops", (), Role.VIEW, "anything", False),
        ("CN=bob, O=Acme", (), Role.EDIT, "orders-", True),
        ("CN=bob, O=Acme", (), Role.VIEW, "my-orders-1", False),
        ("bob", (), Role.EDIT, "orders-1", True),
        ("bob", (), Role.VIEW, "orders-12", False),
        ("bob", (), Role.ADMIN, "orders-1", False),
        ("dave", (), Role.VIEW, "public", True),
        ("dave", (), Role.OPERATE, "public", False),
        ("dave", (), Role.VIEW, "public2", False),
    ],
)
def test_role_includes_lower_roles_for_the_connectors_of_its_pattern(
    rules: Rules, name: str, groups: tuple[str, ...], role: Role, connector: str, expected: bool
) -> None:
    assert rules.allow(Principal(name, frozenset(groups)), role, connector) is expected


def test_brackets_and_dots_of_a_role_pattern_are_literal() -> None:
    rules = parse_rules("user:a view a.[b]*", "roles")
    seen = [name for name in ("a.[b]", "a.[b]c\nd", "a.b", "ax[b]") if rules.allow(Principal("a"), Role.VIEW, name)]
    assert seen == ["a.[b]", "a.[b]c\nd"]


def test_only_the_catch_all_pattern_grants_a_role_everywhere(rules: Rules) -> None:
    everywhere = [name for name in ("alice", "bob", "dave") if rules.allow_everywhere(Principal(name), Role.VIEW)]
    somewhere = [name for name in ("alice", "bob", "dave") if rules.allow_somewhere(Principal(name), Role.EDIT)]
    assert (everywhere, somewhere) == (["alice"], ["alice", "bob"])


def test_authenticated_caller_has_full_access_without_a_roles_file() -> None:
    assert EVERYTHING.allow_everywhere(Principal("x"), Role.ADMIN)


def test_all_faults_of_a_file_are_named_with_their_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rules("alice admin *\nuser:a root *\nuser:a view\nuser: view *\nuser:'a view *\n\nanyone view *", "roles")
    lines = [message.partition(":")[0] for message in caught.value.messages]
    assert lines == [f"roles, line {number}" for number in (1, 2, 3, 4, 5)]


def test_a_file_that_grants_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="grants nothing"):
        parse_rules("# nothing yet\n", "roles")
