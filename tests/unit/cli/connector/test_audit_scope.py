"""Which connectors cannot be audited, and what is said about them."""

from typing import Any

import pytest

from fencepost.builtin.connector.file_stream.sink import FileStreamSinkConnector
from fencepost.builtin.connector.file_stream.source import FileStreamSourceConnector
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.builtin.connector.topic import TopicSql, TopicTransformConnector
from fencepost.builtin.mirror.checkpoint.connector import MirrorCheckpointConnector
from fencepost.cli.connector.audit import why_no_audit


@pytest.mark.parametrize(
    ("connector", "next_step"),
    [
        (TopicTransformConnector, "query of your own"),
        (TopicSql, "query of your own"),
        (SpoolDirectorySource, "query of your own"),
        (FileStreamSinkConnector, "fencepost offsets show"),
        (MirrorCheckpointConnector, "audit the connector that copies"),
    ],
)
def test_reason_that_a_connector_cannot_be_audited_has_a_next_step(connector: type[Any], next_step: str) -> None:
    assert next_step in why_no_audit(connector)


def test_source_with_tasks_in_slots_can_be_audited() -> None:
    assert why_no_audit(FileStreamSourceConnector) == ""
