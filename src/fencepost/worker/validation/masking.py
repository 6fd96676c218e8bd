"""The answer about configs that refer to config providers: it shows the references, not the values (E11)."""

from collections.abc import Mapping
from dataclasses import replace

from fencepost.cluster.info import KeyReport
from fencepost.config.raw import RawConfig
from fencepost.config.reference import has_references
from fencepost.plugin.secret_keys import secret_keys
from fencepost.secret.known import hide, hide_known
from fencepost.secret.redaction import HIDDEN


def shown(report: KeyReport, config: RawConfig, faults: Mapping[str, str], said: str = "") -> KeyReport:
    """Return the report of a key for users.

    Args:
        config: the config with its references.
        faults: why references could not be looked up, or are not possible. Nothing else is said about these keys, as
            the text of a reference is no value.
        said: what the config shows itself. If secrets in that were hidden, it would say that they are some.
    """
    found = report.value
    key = found.name
    errors = (faults[key],) if key in faults else found.errors
    is_reference = found.value != HIDDEN and has_references({key: config.get(key)})
    is_secret = not is_reference and found.value is not None and key in secret_keys({key: config.get(key)})
    value = replace(
        found,
        value=HIDDEN if is_secret else config.get(key) if is_reference else found.value,
        errors=tuple(hide(each, unless_in=said) for each in errors),
        # Users choose one of them.
        recommended_values=tuple(hide_known(each, unless_in=said) for each in found.recommended_values),
    )
    return replace(report, value=value)
