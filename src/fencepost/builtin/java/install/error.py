"""The error of everything here."""

from fencepost.api import ConnectError


class InstallError(ConnectError):
    """Nothing was installed or removed. The text says why, and what to do."""
