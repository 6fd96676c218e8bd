"""Keys and certificates as PEM, the only form that Python's TLS takes."""

import os
import ssl
import tempfile


def load_pem(context: ssl.SSLContext, pem: bytes, password: str | None) -> None:
    """Load a certificate and its key. Raises ssl.SSLError.

    Python reads them only from a file, so this uses a private one that lives for this call (E11). With the password "",
    OpenSSL does not ask the terminal for that of an encrypted key.
    """
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(pem)
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)


def pem_of_key_store(data: bytes, password: str | None) -> bytes | None:
    """Return the key and the certificates of a key store in PKCS12; None if it has no key with a certificate.

    Raises ValueError if it cannot be read, or the password is wrong.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

    key, certificate, others = load_key_and_certificates(data, None if password is None else password.encode())
    if key is None or certificate is None:
        return None
    chain = [each.public_bytes(Encoding.PEM) for each in (certificate, *others)]
    return b"".join([*chain, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())])
