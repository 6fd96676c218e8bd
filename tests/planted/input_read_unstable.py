"""Where a stream's task begins is read as it is, though a transaction is about to change that (E20)."""

from planted import unstable_offset

known = unstable_offset.known
