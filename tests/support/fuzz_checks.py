"""A check for schemathesis (`SCHEMATHESIS_HOOKS`): 500 is for JSON of the wrong shape, as in Kafka Connect."""

import schemathesis

_WRONG_SHAPE = ("Cannot deserialize value", "Cannot construct instance", "Unrecognized field")


@schemathesis.check
def no_server_error_but_kafka_connects(ctx, response, case):
    """A 5xx is the worker's fault, unless the body is one that Kafka Connect answers with 500 as well."""
    if response.status_code < 500:
        return
    text = f"{response.status_code} {response.content[:300]!r}"
    assert response.status_code == 500, text
    assert response.json()["message"].startswith(_WRONG_SHAPE), text
