"""Which values of a config are secrets, by all that it names."""

import pytest

from fencepost.plugin.secret_keys import hold_given_secrets, looks_secret, secret_keys
from fencepost.secret.known import hide

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
def test_secret_values_of_a_config_are_found(config: dict[str, str], secret: set[str]) -> None:
    assert secret_keys(config) == secret


def test_secret_written_by_a_user_is_hidden_until_released() -> None:
    jaas = 'a.PlainLoginModule required username="me" password="Tr0ub4dor-51";'
    let_go = hold_given_secrets({"producer.override.sasl.jaas.config": jaas, "url": "db://me:batt-ery@host"})
    assert hide("Tr0ub4dor-51 for me, batt-ery") == "[hidden] for me, [hidden]"
    let_go()


def test_value_shown_elsewhere_in_the_config_is_not_hidden() -> None:
    given = {"connector.class": "io.debezium.Postgres51Connector", "database.password": "Postgres51"}
    hold_given_secrets(given)()
    assert hide("class Postgres51Connector") == "class Postgres51Connector"


def test_reference_to_a_provider_is_not_hidden() -> None:
    hold_given_secrets({"db.password": "${file:/run/secrets51:password}"})()
    assert hide("no ${file:/run/secrets51:password}") == "no ${file:/run/secrets51:password}"


PUBLIC = [
    "fs.s3a.secret.key", "fs.s3a.access.key", "fs.s3a.session.token", "fs.s3a.encryption.key",
    "fs.s3a.server-side-encryption.key", "fs.azure.account.key.shop.blob.core.windows.net",
    "fs.azure.account.oauth2.client.secret.shop.dfs.core.windows.net",
    "fs.azure.sas.orders.shop.blob.core.windows.net", "fs.azure.sas.fixed.token.shop.dfs.core.windows.net",
    "fs.gs.auth.service.account.private.key", "iceberg.catalog.s3.secret-access-key",
    "iceberg.hadoop.fs.s3a.secret.key", "iceberg.catalog.s3.access-key-id", "iceberg.catalog.s3.session-token",
    "iceberg.catalog.credential", "iceberg.catalog.token", "iceberg.catalog.adls.sas-token.shop",
    "iceberg.catalog.adls.auth.shared-key.account.key", "iceberg.catalog.gcs.oauth2.token",
    "iceberg.catalog.s3.sse.key", "snowflake.private.key", "snowflake.private.key.passphrase",
    "snowflake.oauth.client.secret", "snowflake.oauth.refresh.token", "aws_secret_access_key",
    "aws.secret.access.key", "api.key", "apiKey", "secretKey", "private.key", "passphrase",
    "azure.storage.account.key", "azblob.account.key", "http.headers.authorization", "gcp.credentials.json",
    "sasl.jaas.config", "connection.password", "database.password", "proxyPassword", "basic.auth.user.info",
    "ssl.keystore.key", "X-API-Key", "sourceDbPwd.pwd", "user.pass", "db_pass", "splunk.hec.tokens", "ssh.key",
    "sshKey", "jwt", "auth.jwt", "cookie", "http.request.cookies", "set-cookie",
]  # fmt: skip


@pytest.mark.parametrize("key", PUBLIC)
def test_secret_key_of_a_public_connector_is_known_by_its_name(key: str) -> None:
    assert secret_keys({key: "x"}) == {key}


@pytest.mark.parametrize(
    "key",
    [
        "fs.s3a.aws.credentials.provider", "fs.azure.account.auth.type.shop.dfs.core.windows.net",
        "ssl.keystore.location", "fs.azure.sas.token.provider.type.shop.dfs.core.windows.net",
        "iceberg.catalog.gcs.oauth2.token-expires-at", "basic.auth.credentials.source",
        "sasl.oauthbearer.token.endpoint.url", "password.policy", "gcp.credentials.path", "snowflake.user.name",
        "message.key.columns", "key.converter", "primary.key", "key.field", "tokenizer", "keystore.keyring",
        "max.tokens", "iceberg.catalog.client.credentials-provider", "aws.secrets.name",
        "iceberg.catalog.adls.auth.shared-key.account.name", "tokens.max", "llm.max.tokens", "total.tokens",
        "pass.through", "bypass", "compass.url", "cookie.spec", "cookies.enabled", "jwt.issuer", "jwt.audience",
        "ssh.host", "ssh.key.path", "bass.pass.filter", "foreign.key", "sort.key", "record.key", "headers",
        "http.headers",
    ],
)  # fmt: skip
def test_key_of_a_location_or_a_type_is_not_secret(key: str) -> None:
    assert secret_keys({key: "x"}) == set()


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA75\n-----END RSA PRIVATE KEY-----"
VALUES = [
    PEM, PEM.replace("\n", "\\n"), "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=Zm9vYmFy==;x=y",
    "Endpoint=sb://shop/;SharedAccessKeyName=all;SharedAccessKey=Zm9vYmFy=", "Bearer eyJhbGciOi.abc-def",
    "Authorization: Bearer eyJhbGciOi.abc-def", "Authorization: Basic dXNlcjpwYXNz",
    "a: b, authorization:Basic dXNlcjpw",
    "Authorization=Basic dXNlcjpwYXNz", '{"Authorization": "Basic dXNlcjpwYXNz"}', "X-Api-Key: 1234567890abcdef",
    "Accept: x|X-Auth-Token: 1234567890abcdef", "Cookie: session=1234567890abcdef", "Basic dXNlcjpwYXNz",
    "https://shop.blob.core.windows.net/c?sv=2022&sig=Zm9vYmFy%3D&se=1",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_value_that_looks_like_a_secret_is_secret_under_any_key(value: str) -> None:
    assert secret_keys({"any": value}) == {"any"}
    assert looks_secret("any", value)


@pytest.mark.parametrize(
    "value",
    ["-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "AccountKey=${vault:shop:key};x", "bearer",
     "Bearer ${vault:shop:token}", "Authorization: Basic ${vault:shop:login}", "X-Api-Key: ${vault:shop:key}",
     "authorization: none", "Basic", "basic authentication", "type: basic information", "Accept: application/json",
     "key:org.example.Partitioner", "cookie: consent", "https://shop/?sig=${vault:shop:sig}", "type: bearer tokens"],
)  # fmt: skip
def test_certificate_or_reference_is_no_secret(value: str) -> None:
    assert secret_keys({"any": value}) == set()


def test_secret_part_of_a_value_is_hidden_on_its_own() -> None:
    let_go = hold_given_secrets({"one": "a;AccountKey=Zm9vYmFy5151==;b", "two": "x: Bearer eyJhbGciOi5151"})
    assert hide("Zm9vYmFy5151== and eyJhbGciOi5151") == "[hidden] and [hidden]"
    let_go()
    assert hide("no Authorization: Bearer eyJhbGciOi5252") == "no Authorization: Bearer [hidden]"
    assert hide(f"no {PEM}") == "no [hidden]-----END RSA PRIVATE KEY-----"
