"""Settings that workers read before anything is looked up."""

import pytest

from fencepost.config import ConfigError
from fencepost.worker.plan import fixed_reference_faults, refuse_fixed_references


@pytest.mark.parametrize(
    "key",
    ["name", "connector.class", "offsets.storage.topic", "producer.override.bootstrap.servers", "slot.dedicated",
     "errors.restart.enabled", "config.action.reload", "consumer.override.group.id",
     "consumer.override.bootstrap.servers"],
)  # fmt: skip
def test_reference_in_a_fixed_key_is_refused_with_the_key(key: str) -> None:
    assert fixed_reference_faults({key: "${env:X}"})[key].startswith(f"{key}: ${{env:X}} is not possible here")
    with pytest.raises(ConfigError, match="write the value itself"):
        refuse_fixed_references({key: "${env:X}"})


def test_reference_is_accepted_in_keys_that_are_not_fixed() -> None:
    refuse_fixed_references({"topic": "${env:X}", "tasks.max": "${env:N}", "name": "${topic}", "connector.class": None})
