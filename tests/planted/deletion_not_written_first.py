"""Records are deleted without anything in the config topic, which a deposed leader could not have written (E9)."""

from fencepost.retention.keeper import Retention
from planted import replace

replace(Retention, "_write", lambda self, decided, due: None)
