"""Whoever takes over plans a new epoch, from where the group stands, and leaves the one that was begun (E16)."""

from fencepost.worker.host import epoch_task
from planted import replace

replace(epoch_task, "begun", lambda standings: None)
