"""The sink's settings: a JDBC sink's config is understood, and what is wrong is named without a secret."""

from typing import Any

import pytest

from fencepost.api import ConfigError
from fencepost.builtin.postgres.sink.task import PostgresSink

URL = "jdbc:postgresql://db:5433/shop"


def test_url_of_jdbc_names_the_database() -> None:
    settings = PostgresSink({"connection.url": f"{URL}?sslmode=require&currentSchema=sales", "connection.user": "u"})
    found = settings.connection("name")
    assert (found.host, found.port, found.database, found.user, found.sslmode) == ("db", 5433, "shop", "u", "require")
    assert settings.default_schema == "sales"


def test_host_and_port_are_used_without_a_url() -> None:
    found = PostgresSink({"connection.host": "db", "connection.user": "u"}).connection("name")
    assert (found.host, found.port, found.database, found.sslmode) == ("db", 5432, "u", "prefer")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"connection.url": "jdbc:mysql://db/shop"}, "must begin with jdbc:postgresql"),
        ({"connection.url": f"{URL}?password=s3cret"}, r"connection\.password"),
        ({"connection.url": "jdbc:postgresql://u:s3cret@db/shop"}, r"connection\.password"),
        ({"connection.url": f"{URL}?targetServerType=primary"}, "targetServerType"),
        ({"connection.url": "jdbc:postgresql://a,b/shop"}, "several hosts"),
        ({"connection.user": None}, r"connection\.user is missing"),
        ({"insert.mode": "upsert"}, r"set pk\.mode"),
        ({"delete.enabled": "true"}, r"delete\.enabled=true needs pk\.mode=record_key"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, r"pk\.fields"),
        ({"db.timezone": "Mars/Base"}, r"db\.timezone=Mars/Base"),
        ({"unavailable.value.placeholder": "hex:zz"}, r"unavailable\.value\.placeholder"),
        ({"dialect.name": "MySqlDatabaseDialect"}, r"dialect\.name"),
        ({"pk.mode": "none", "primary.key.mode": "record_key"}, r"primary\.key\.mode and pk\.mode differ"),
    ],
)
def test_wrong_setting_is_named_without_a_secret(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        PostgresSink({"connection.user": "u", **config})
    assert "s3cret" not in str(caught.value)


def test_keys_of_debezium_mean_the_same() -> None:
    settings = PostgresSink(
        {
            "connection.url": URL,
            "connection.username": "u",
            "primary.key.mode": "record_key",
            "primary.key.fields": "id",
            "schema.evolution": "basic",
            "insert.mode": "upsert",
            "collection.name.format": "orders",
        }
    )
    assert (settings.connection_user, settings.pk_mode, settings.pk_fields) == ("u", "record_key", ["id"])
    assert (settings.auto_create, settings.auto_evolve, settings.table_name_format) == (True, True, "orders")


def test_password_is_not_printed() -> None:
    settings = PostgresSink({"connection.user": "u", "connection.password": "s3cret"})
    found = settings.connection("name")
    assert found.password == "s3cret"
    assert "s3cret" not in f"{settings.connection_password} {found}"
