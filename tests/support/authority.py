"""An authority that issues certificates for tests of TLS: good or expired, of any host, for servers and callers."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

_PEM = serialization.Encoding.PEM
_PKCS8 = serialization.PrivateFormat.PKCS8


@dataclass(frozen=True)
class Issued:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def pem(self, path: Path, password: str | None = None) -> str:
        """Write key and certificate to a file, and return its path."""
        locked = serialization.NoEncryption() if password is None else _locked(password)
        path.write_bytes(self.key.private_bytes(_PEM, _PKCS8, locked) + self.certificate.public_bytes(_PEM))
        return str(path)

    def pkcs12(self, path: Path, password: str) -> str:
        data = pkcs12.serialize_key_and_certificates(b"own", self.key, self.certificate, None, _locked(password))
        path.write_bytes(data)
        return str(path)


class Authority:
    """Issues certificates for subjects such as `CN=alice,O=Acme`; `bundle` and `pkcs12` write its own."""

    def __init__(self, name: str = "CN=authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name.from_rfc4514_string(name)
        self._own = _signed(self._name, self._name, self._key, self._key, days=30, host=None, is_authority=True)

    def issue(self, subject: str, host: str | None = None, days: int = 10) -> Issued:
        """Issue a certificate that is valid for `days` from now; with a negative number it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name.from_rfc4514_string(subject)
        return Issued(_signed(name, self._name, key, self._key, days=days, host=host, is_authority=False), key)

    def bundle(self, path: Path) -> str:
        path.write_bytes(self._own.public_bytes(_PEM))
        return str(path)

    def pkcs12(self, path: Path, password: str) -> str:
        path.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [self._own], _locked(password)))
        return str(path)


def _locked(password: str) -> serialization.KeySerializationEncryption:
    return serialization.BestAvailableEncryption(password.encode())


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    *,
    days: int,
    host: str | None,
    is_authority: bool,
) -> x509.Certificate:
    end = datetime.now(UTC) + timedelta(days=days)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(end - timedelta(days=60)).not_valid_after(end)
    builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    if host is not None:
        names = [x509.IPAddress(ipaddress.ip_address(host))] if host[0].isdigit() else [x509.DNSName(host)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(by, hashes.SHA256())
