"""The settings that limit what callers of the REST API can ask for."""

from fencepost.config.check import at_least
from fencepost.config.setting import LOW, Config, Type, setting


class RestLimitConfig(Config):
    """How large and how frequent requests may be."""

    request_max_bytes: int = setting(
        "rest.request.max.bytes",
        type=Type.INT,
        default=16 * 1024 * 1024,
        check=at_least(1024),
        importance=LOW,
        doc="The largest body of a request; larger ones are answered with 413.",
    )
    requests_per_second_max: int = setting(
        "rest.requests.per.second.max",
        type=Type.INT,
        default=200,
        check=at_least(0),
        importance=LOW,
        doc="How many requests a second each caller may send on average, twice as many at once; more are answered with "
        "429. A caller is a name, or an address if callers are not asked who they are. 0: no limit. Health, metrics "
        "in `rest.open.paths`, and requests of other workers do not count.",
    )
