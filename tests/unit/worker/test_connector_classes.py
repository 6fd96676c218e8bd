"""What connectors are, as far as their classes are here."""

import pytest

from fencepost.cluster.info import ConnectorType
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.worker.plan import has_dataframes, type_of


@pytest.mark.parametrize(
    ("connector_class", "expected"),
    [
        ("FileStreamSource", ConnectorType.SOURCE),
        ("org.apache.kafka.connect.file.FileStreamSinkConnector", ConnectorType.SINK),
        (None, ConnectorType.UNKNOWN),
    ],
)
def test_connector_is_of_unknown_type_when_its_class_is_not_installed(
    connector_class: str | None, expected: ConnectorType
) -> None:
    snapshot = ClusterSnapshot(connectors={"c": {"name": "c", "connector.class": connector_class}})
    assert type_of(snapshot, "c") is expected
    assert type_of(snapshot, "gone") is ConnectorType.UNKNOWN


@pytest.mark.parametrize(
    ("connector_classes", "expected"),
    [
        ([], False),
        (["FileStreamSource", "FileStreamSink"], False),
        (["not.here", None, "SpoolDirectorySource"], True),
        (["FilesSink"], True),
    ],
)
def test_dataframes_are_awaited_when_an_installed_connector_class_has_them(
    connector_classes: list[str | None], expected: bool
) -> None:
    connectors = {str(n): {"name": str(n), "connector.class": each} for n, each in enumerate(connector_classes)}
    assert has_dataframes(ClusterSnapshot(connectors=connectors)) is expected
