"""What connectors are, as far as their classes are here."""

import pytest

from fencepost.cluster.info import ConnectorType
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.connector_classes import type_of


@pytest.mark.parametrize(
    ("connector_class", "expected"),
    [
        ("FileStreamSource", ConnectorType.SOURCE),
        ("org.apache.kafka.connect.file.FileStreamSinkConnector", ConnectorType.SINK),
        (None, ConnectorType.UNKNOWN),
    ],
)
def test_a_connector_whose_class_is_not_here_is_of_unknown_type(
    connector_class: str | None, expected: ConnectorType
) -> None:
    snapshot = ClusterSnapshot(connectors={"c": {"name": "c", "connector.class": connector_class}})
    assert type_of(snapshot, "c") is expected
    assert type_of(snapshot, "gone") is ConnectorType.UNKNOWN
