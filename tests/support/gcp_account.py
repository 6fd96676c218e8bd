"""A service account of Google Cloud, whose key signs the tokens that its clients send."""

import json
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


def service_account(path: Path) -> Path:
    """Write the file with a new account's key. Returns its path."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    account = {
        "type": "service_account",
        "project_id": "shop",
        "private_key_id": "1",
        "private_key": key.private_bytes(serialization.Encoding.PEM, *form).decode(),
        "client_email": "worker@shop.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "http://127.0.0.1:1/token",
    }
    path.write_text(json.dumps(account))
    return path
