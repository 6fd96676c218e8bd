"""Records are deleted though it is not known what is to be given up first (E9)."""

from fencepost.retention import decision
from planted import replace

replace(decision, "_is_known", lambda facts, readers: True)
replace(decision, "_given_up", lambda facts, deletes: {})
