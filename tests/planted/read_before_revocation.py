"""What was read in batches before a revocation stays, and is handed over (E14)."""

from fencepost.kafka.read.group_batches import BatchGroupInput
from planted import replace

replace(BatchGroupInput, "_let_go", lambda self, places: None)
