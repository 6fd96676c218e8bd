"""The principal of a client certificate: its subject, as Kafka's brokers name it, such as `CN=alice,OU=ops,O=Acme`."""

import ssl

from fencepost.rest.access.principal import Principal

PEER = "fencepost.peer"
"""The key in a connection's state under which its server keeps the principal of the client's certificate."""


def principal_of(tls: "ssl.SSLObject | None") -> Principal | None:
    """Return the principal of a connection; None without TLS, without a certificate, or without a subject in it.

    The certificate was verified in the handshake.
    """
    encoded = tls.getpeercert(binary_form=True) if tls is not None else None
    if not encoded:
        return None
    from cryptography.x509 import load_der_x509_certificate  # only where callers have certificates

    name = load_der_x509_certificate(encoded).subject.rfc4514_string()
    return Principal(name) if name else None
