"""What was written is shown although nobody who takes over could know of it (E16)."""

from dataclasses import replace as replaced

from fencepost.task.sink.epoch_plan import EpochMetadata
from planted import replace


def _to_text(self: EpochMetadata) -> str:
    return to_text(replaced(self, token=None))


to_text = replace(EpochMetadata, "to_text", _to_text)
