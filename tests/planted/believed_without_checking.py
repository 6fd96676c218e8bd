"""What a batch says of itself is believed before its checksum is looked at: one that is damaged may seem aborted."""

from fencepost.kafka.codec import committed
from planted import replace

replace(committed, "ensure_intact", lambda batch: None)
