"""Debezium's settings: which are read, which are refused, and which change nothing."""

import pytest

from fencepost.builtin.postgres.envelope import PostgresSettings, TableFilter
from fencepost.builtin.postgres.envelope.other_settings import REFUSED, REFUSED_PREFIXES, WITHOUT_EFFECT
from fencepost.builtin.postgres.envelope.selection import column_filter, key_columns
from fencepost.config import ConfigError
from support.postgres_config import MINIMAL, postgres_settings


def faults(config: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        PostgresSettings(MINIMAL | config)
    return "\n".join(caught.value.messages)


def test_minimal_config_has_debeziums_defaults() -> None:
    made = postgres_settings()
    assert (made.port, made.slot_name, made.publication_name) == (5432, "debezium", "dbz_publication")
    assert (made.snapshot_mode, made.decimal_handling_mode, made.time_precision_mode) == (
        "initial",
        "precise",
        "adaptive",
    )
    assert (made.placeholder, made.skipped) == (b"__debezium_unavailable_value", {"t"})


def test_missing_plugin_name_is_refused_as_debeziums_default_is_another() -> None:
    given = {key: value for key, value in MINIMAL.items() if key != "plugin.name"}
    with pytest.raises(ConfigError, match=r"plugin\.name=pgoutput"):
        PostgresSettings(given)


@pytest.mark.parametrize("key", sorted(REFUSED))
def test_unsupported_key_is_refused_by_name_unless_it_has_debeziums_default(key: str) -> None:
    default, why = REFUSED[key]
    assert why in faults({key: "something"})
    assert key in faults({key: "something"})
    if default:
        assert PostgresSettings(MINIMAL | {key: default})


@pytest.mark.parametrize("prefix", sorted(REFUSED_PREFIXES))
def test_family_of_unsupported_keys_is_refused_by_name(prefix: str) -> None:
    assert f"Configuration {prefix}x is not supported" in faults({f"{prefix}x": "1"})


def test_keys_without_effect_are_accepted_with_a_note() -> None:
    made = PostgresSettings(MINIMAL | dict.fromkeys(WITHOUT_EFFECT, "1"))
    assert made.notes() == [f"Ignoring '{key}': {why}" for key, why in WITHOUT_EFFECT.items()]
    assert postgres_settings().notes() == []


def test_all_faults_are_reported_at_once_and_no_password_is_shown() -> None:
    given = {"table.include.list": "a(", "slot.name": "Upper", "heartbeat.interval.ms": "-1", "database.password": "s3"}
    found = faults(given)
    assert all(key in found for key in ("table.include.list", "slot.name", "heartbeat.interval.ms"))
    assert "s3" not in found


def test_include_and_exclude_lists_of_one_kind_exclude_each_other() -> None:
    for kind in ("table", "message.prefix"):
        keys = [f"{kind}.include.list", f"{kind}.exclude.list"]
        assert " and ".join(keys) in faults(dict.fromkeys(keys, "a"))


def test_unavailable_placeholder_may_be_bytes() -> None:
    assert postgres_settings(unavailable_value_placeholder="hex:00ff").placeholder == b"\x00\xff"
    assert "unavailable.value.placeholder" in faults({"unavailable.value.placeholder": "hex:zz"})


@pytest.mark.parametrize(
    ("lists", "table", "is_captured"),
    [
        ({}, ("shop", "orders"), True),
        ({}, ("pg_catalog", "pg_class"), False),
        ({}, ("information_schema", "tables"), False),
        ({}, ("pg_temp_3", "t"), False),
        ({"table.include.list": "shop.orders"}, ("shop", "orders"), True),
        ({"table.include.list": "shop.orders"}, ("shop", "orders2"), False),
        ({"table.include.list": "SHOP.Orders"}, ("shop", "orders"), True),
        ({"table.include.list": r"shop\.(orders|items), other.*"}, ("shop", "items"), True),
        ({"table.include.list": r"shop.a{1\,2}"}, ("shop", "aa"), True),
        ({"table.exclude.list": "shop.*"}, ("shop", "orders"), False),
        ({"schema.include.list": "shop"}, ("shops", "orders"), False),
        ({"schema.exclude.list": "shop"}, ("shop", "orders"), False),
        ({"schema.include.list": "shop", "table.exclude.list": "shop.x"}, ("shop", "x"), False),
    ],
)
def test_table_is_captured_if_both_kinds_of_lists_allow_it(
    lists: dict[str, str], table: tuple[str, str], is_captured: bool
) -> None:
    assert TableFilter(PostgresSettings(MINIMAL | lists))(*table) is is_captured


def test_signal_table_is_found_by_its_full_name() -> None:
    found = TableFilter(postgres_settings(signal_data_collection="shop.public.signals"))
    assert found.is_of_signals("public", "signals")
    assert not found.is_of_signals("public", "orders")


def test_columns_are_left_out_by_their_full_names() -> None:
    allowed = column_filter(postgres_settings(column_exclude_list="shop.orders.secret.*"), "shop", "orders")
    assert [name for name in ("id", "secret", "secret2") if allowed(name)] == ["id"]


def test_message_key_columns_are_in_the_order_of_the_setting() -> None:
    made = postgres_settings(message_key_columns="shop.(.*):b,a;other.t:c")
    assert key_columns(made, "shop", "orders", ["a", "b", "c"]) == ["b", "a"]
    assert key_columns(made, "none", "orders", ["a", "b", "c"]) == []
    assert "TABLE:COLUMN" in faults({"message.key.columns": "shop.orders"})


def test_key_with_a_wrong_hash_or_pattern_is_refused_without_its_salt() -> None:
    found = faults({"column.mask.hash.SHA-7.with.salt.s3cret": "a", "column.truncate.to.3.chars": "a("})
    assert "column.mask.hash.SHA-7 is not supported" in found
    assert "column.truncate.to.3.chars: Invalid regex" in found
    assert "s3cret" not in found
    for algorithm in ("SHA-256", "SHA-512", "MD5", "SHA3-256"):
        assert PostgresSettings(MINIMAL | {f"column.mask.hash.v2.{algorithm}.with.salt.x": "a.b.c"})
