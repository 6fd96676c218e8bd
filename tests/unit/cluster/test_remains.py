"""What is said before a connector is deleted."""

import pytest

from fencepost.cluster.glance import remains_of

CLASS = "io.debezium.connector.postgresql.PostgresConnector"
CONFIG = {"connector.class": CLASS, "database.hostname": "db", "database.dbname": "shop", "slot.name": "orders_cdc"}


def test_remaining_replication_slot_is_named_with_the_command_to_drop_it() -> None:
    (text,) = remains_of({**CONFIG, "database.password": "geheim"})
    assert "replication slot orders_cdc of db/shop stays" in text
    assert "SELECT pg_drop_replication_slot('orders_cdc');" in text
    assert "geheim" not in text
    (usual,) = remains_of({"connector.class": CLASS})
    assert "pg_drop_replication_slot('debezium'); DROP PUBLICATION IF EXISTS \"dbz_publication\";" in usual


@pytest.mark.parametrize("config", [{**CONFIG, "slot.drop.on.stop": "true"}, {"connector.class": "FilesSink"}])
def test_connector_without_outside_objects_has_no_remains(config: dict[str, str]) -> None:
    assert remains_of(config) == []
