"""What a validation shows of values: a recommended one can be chosen, and stored, as it is."""

from fencepost.cluster.info import KeyReport, KeyValue
from fencepost.secret.known import hold
from fencepost.worker.validation.validation import shown


def test_recommended_values_hide_only_known_secrets() -> None:
    values = ("amqp://me:pw@host", "hunter22 or so")
    release = hold(["hunter22"])
    try:
        report = shown(KeyReport(None, KeyValue("address", None, recommended_values=values)), {}, {})
    finally:
        release()
    assert report.value.recommended_values == ("amqp://me:pw@host", "[hidden] or so")
