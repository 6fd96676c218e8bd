"""Settings of a mirror's clients: MirrorMaker's prefixes and their precedence."""

from typing import Any

import pytest

from fencepost.builtin.mirror.setting.clients import FlowEnd, client_faults, client_properties
from fencepost.kafka.setting.table import ClientKind

GIVEN: dict[str, object] = {
    "name": "m",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:1",
    "source.cluster.security.protocol": "SSL",
    "source.cluster.fetch.min.bytes": "9",
    "target.cluster.bootstrap.servers": "b:1",
    "consumer.poll.timeout.ms": "500",
    "consumer.fetch.min.bytes": "1",
    "consumer.override.fetch.min.bytes": "7",
    "source.consumer.fetch.min.bytes": "2",
    "target.consumer.fetch.min.bytes": "3",
    "admin.security.protocol": "SASL_SSL",
    "target.admin.client.id": "me",
    "producer.linger.ms": None,
}


@pytest.mark.parametrize(
    ("cluster", "kind", "expected"),
    [
        (
            FlowEnd.SOURCE,
            ClientKind.CONSUMER,
            {"bootstrap.servers": "a:1", "security.protocol": "SSL", "fetch.min.bytes": "2"},
        ),
        (FlowEnd.TARGET, ClientKind.CONSUMER, {"bootstrap.servers": "b:1", "fetch.min.bytes": "3"}),
        (FlowEnd.SOURCE, ClientKind.ADMIN, {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL"}),
        (
            FlowEnd.TARGET,
            ClientKind.ADMIN,
            {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "client.id": "me"},
        ),
        (FlowEnd.TARGET, ClientKind.PRODUCER, {"bootstrap.servers": "b:1"}),
    ],
)
def test_setting_with_the_narrower_prefix_has_precedence(
    cluster: FlowEnd, kind: ClientKind, expected: dict[str, Any]
) -> None:
    assert client_properties(GIVEN, cluster, kind) == expected


def test_client_id_is_the_users_id_followed_by_the_role() -> None:
    own = client_properties(GIVEN, FlowEnd.TARGET, ClientKind.ADMIN, client_id="A->B|m|admin")
    assert own["client.id"] == "me|A->B|m|admin"
    assert client_properties(GIVEN, FlowEnd.SOURCE, ClientKind.ADMIN, client_id="x")["client.id"] == "x"


def test_client_faults_name_the_whole_key_and_no_value() -> None:
    given = {
        "source.cluster.sasl.jaas.config": "secret nonsense",
        "source.consumer.fetch.min.bytes": "many",
        "target.producer.linger.ms": "long",
    }
    faults = client_faults(given, FlowEnd.SOURCE)
    assert sorted(faults) == ["source.cluster.sasl.jaas.config", "source.consumer.fetch.min.bytes"]
    assert "secret" not in str(faults)
    assert sorted(client_faults(given, FlowEnd.TARGET)) == ["target.producer.linger.ms"]
