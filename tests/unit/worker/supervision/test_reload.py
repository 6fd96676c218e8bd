"""When what uses looked-up values is restarted."""

import pytest

from fencepost.worker.supervision.automatic_restart import reload_in_s


@pytest.mark.parametrize(
    ("config", "ttl_ms", "in_s"),
    [
        ({}, None, None),
        ({}, 90_000, 90.0),
        ({"config.action.reload": "restart"}, 0, 1.0),
        ({"config.action.reload": "none"}, 90_000, None),
    ],
)
def test_reload_is_due_when_values_expire(config: dict[str, str], ttl_ms: int | None, in_s: float) -> None:
    assert reload_in_s(config, ttl_ms) == in_s
