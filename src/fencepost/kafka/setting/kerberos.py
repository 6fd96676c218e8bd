"""Kerberos (GSSAPI), which client libraries have only where they were built with it."""

from functools import cache
from importlib.util import find_spec

from fencepost.guide import guide

GSSAPI = "GSSAPI"
"""The mechanism of Kerberos; that of SASL where none is set."""


@cache
def why_no_kerberos() -> str | None:
    """Return what is missing for Kerberos, and what to do instead; None if nothing is missing."""
    lacking = [*(() if _is_built_in() else ("a librdkafka that was built with it, as that of PyPI was not",)),
               *(() if find_spec("gssapi") else ("the Python package gssapi",))]  # fmt: skip
    if not lacking:
        return None
    return (
        f"Kerberos ({GSSAPI}, also where no mechanism is set) needs {', and '.join(lacking)}. Set SCRAM-SHA-512, "
        "OAUTHBEARER or PLAIN, or use TLS with a client certificate: brokers can take one of them beside Kerberos "
        f"({guide('how-to/secure-clients#kerberos')})"
    )


def _is_built_in() -> bool:
    from confluent_kafka import Consumer, KafkaException  # translating settings does without the library

    try:
        Consumer({"group.id": "-", "builtin.features": "sasl_gssapi"}).close()
    except KafkaException:
        return False
    return True
