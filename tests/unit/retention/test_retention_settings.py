"""What a worker's file says of topics that empty themselves: what is wrong is refused, and off is the default."""

import pytest

from fencepost.config import ConfigError
from fencepost.config.connector import SinkConnectorConfig, SourceConnectorConfig
from fencepost.config.worker import WorkerConfig
from support.settings import SETTINGS

_BASE = {**SETTINGS, "bootstrap.servers": "here:9092"}


def test_deletion_of_committed_records_is_off_by_default() -> None:
    config = WorkerConfig(_BASE)
    assert config.delete_committed_enabled is False
    assert config.delete_committed_topics == []
    assert config.delete_committed_respect_groups == []
    assert (config.delete_committed_keep_records, config.delete_committed_keep_ms) == (0, 0)


def test_lists_are_separated_by_commas() -> None:
    config = WorkerConfig({**_BASE, "delete.committed.topics": r" .*\.intermediate , a "})
    assert config.delete_committed_topics == [r".*\.intermediate", "a"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delete.committed.enabled", "perhaps"),
        ("delete.committed.topics", "a,("),
        ("delete.committed.topics", "*"),
        ("delete.committed.respect.groups", "["),
        ("delete.committed.keep.records", "-1"),
        ("delete.committed.keep.ms", "a day"),
    ],
)
def test_wrong_retention_setting_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        WorkerConfig({**_BASE, key: value})


@pytest.mark.parametrize("kind", [SinkConnectorConfig, SourceConnectorConfig])
def test_connectors_have_no_setting_for_emptied_topics(kind: type[SinkConnectorConfig]) -> None:
    """The KIP rejects that: topics are emptied by workers, and a pipeline has several connectors."""
    assert [key for key in kind.settings() if key.startswith("delete.committed")] == []
