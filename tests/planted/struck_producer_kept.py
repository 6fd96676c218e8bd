"""Nobody looks for strikes, so that a producer goes on after its requests were sent again (E5)."""

from fencepost.kafka.produce.strike_log import StrikeLog
from planted import replace

replace(StrikeLog, "_is_strike", staticmethod(lambda line: False))
