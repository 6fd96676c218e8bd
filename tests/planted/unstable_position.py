"""Where a mirror stands is read as it is, though a transaction is about to change that (E18)."""

from planted import unstable_offset

known = unstable_offset.known
