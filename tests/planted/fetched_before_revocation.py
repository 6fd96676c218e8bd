"""What was fetched before a revocation that comes within the same poll is handed over (E14)."""

from fencepost.kafka.read.group_input import GroupInput
from planted import replace

replace(GroupInput, "_without_revoked", lambda self, messages: messages)
