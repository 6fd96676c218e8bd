"""What a worker finds when its `plugin.path` holds this directory."""

from fencepost.testing import source


class TestingSourceConnector(source.TestingSourceConnector):
    """Follows scripts; see `fencepost.testing.source`."""
