"""A sink that is stopped reads nothing, so that nobody waits for it (E9)."""

from dataclasses import replace as replaced
from typing import Any

from fencepost.retention import survey
from fencepost.storage.change import TargetState
from fencepost.storage.snapshot import ClusterSnapshot
from planted import replace


def _readings(snapshot: ClusterSnapshot, *more: Any) -> survey.Readings:
    running = {
        name: config
        for name, config in snapshot.connectors.items()
        if snapshot.target_state(name) is not TargetState.STOPPED
    }
    found: survey.Readings = known(replaced(snapshot, connectors=running), *more)
    return found


known = replace(survey, "readings", _readings)
