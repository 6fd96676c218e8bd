"""A new plan begins without a round of fencing (E18)."""

from fencepost.transaction import lane
from planted import replace

replace(lane, "fence", lambda transactional_ids, conf_of, timeout_s: None)
