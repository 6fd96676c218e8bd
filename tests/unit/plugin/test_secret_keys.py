"""Which values of a config are secrets, by all that it names."""

import pytest

from fencepost.plugin.secret_keys import hold_given_secrets, secret_keys
from fencepost.telemetry.secret import hide

AVRO = "io.confluent.connect.avro.AvroConverter"


@pytest.mark.parametrize(
    ("config", "secret"),
    [
        ({"db.password": "x", "file": "/data"}, {"db.password"}),
        ({"db.password": ""}, set()),
        ({"value.converter": AVRO, "value.converter.basic.auth.user.info": "u:p", "value.converter.schemas": "x"},
         {"value.converter.basic.auth.user.info"}),
        ({"value.converter": AVRO, "value.converter.schema.registry.ssl.key.password": "p"},
         {"value.converter.schema.registry.ssl.key.password"}),
        ({"key.converter": AVRO, "key.converter.bearer.auth.client.secret": "p"},
         {"key.converter.bearer.auth.client.secret"}),
        ({"value.converter.schema.registry.url": "http://me:p@registry,http://registry"},
         {"value.converter.schema.registry.url"}),
        ({"value.converter.schema.registry.url": "http://registry:8081", "at": "mailto:me@here"}, set()),
        ({"url": "db://me:${env:PASSWORD}@host"}, set()),
        ({"connection.uri": "me:p@host:27017/db", "hosts": "a:1,me:p@b:2"}, {"connection.uri", "hosts"}),
        ({"connection.url": "jdbc:sqlserver://h;user=me;password=p"}, {"connection.url"}),
        ({"connection.url": "jdbc:sqlserver://h;user=me;password=${env:P}", "query": "SELECT secret=1"}, set()),
        ({"connection.uri": "me:${env:PASSWORD}@host:27017/db"}, set()),
        ({"transforms": "t", "transforms.t.type": "nobody.Knows", "transforms.t.token": "x"}, {"transforms.t.token"}),
    ],
)  # fmt: skip
def test_secrets_are_found(config: dict[str, str], secret: set[str]) -> None:
    assert secret_keys(config) == secret


def test_a_secret_that_a_user_wrote_is_hidden_until_it_is_let_go() -> None:
    jaas = 'a.PlainLoginModule required username="me" password="Tr0ub4dor-51";'
    let_go = hold_given_secrets({"producer.override.sasl.jaas.config": jaas, "url": "db://me:batt-ery@host"})
    assert hide("Tr0ub4dor-51 for me, batt-ery") == "[hidden] for me, [hidden]"
    let_go()


def test_what_the_config_shows_elsewhere_is_no_secret() -> None:
    given = {"connector.class": "io.debezium.Postgres51Connector", "database.password": "Postgres51"}
    hold_given_secrets(given)()
    assert hide("class Postgres51Connector") == "class Postgres51Connector"


def test_references_are_no_secrets() -> None:
    hold_given_secrets({"db.password": "${file:/run/secrets51:password}"})()
    assert hide("no ${file:/run/secrets51:password}") == "no ${file:/run/secrets51:password}"
