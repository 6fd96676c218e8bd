"""Settings of SpoolDirectorySource."""

import pytest

from fencepost.api import ConfigError
from fencepost.builtin.connector.spool.source import SpoolDirectorySource

GIVEN = {"input.path": "/data/in", "topic": "t"}


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"input.format": "xml"}, "input.format"),
        ({"input.path": ""}, "input.path"),
        ({"finished.action": "move"}, "finished.path"),
        ({"finished.action": "move", "finished.path": "/data/in/"}, "finished.path"),
        ({"finished.action": "burn"}, "finished.action"),
        ({"reader.__globPaths__": "true"}, "reader.__globPaths__"),
        ({"reader.Path": "/etc"}, "reader.Path"),
        ({"reader.paths": '["/etc"]'}, "reader.paths"),
    ],
)
def test_spool_source_names_a_wrong_setting(wrong: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        SpoolDirectorySource(GIVEN | wrong)


def test_every_spool_task_gets_the_connectors_settings() -> None:
    connector = SpoolDirectorySource(GIVEN | {"reader.header": "true"})
    assert connector.task_configs(2) == [GIVEN | {"reader.header": "true"}] * 2
