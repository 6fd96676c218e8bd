"""Key stores and trust stores that Java's keytool has made, for the listeners of the REST API."""

import asyncio
import re
import shlex
import ssl
import subprocess
from pathlib import Path

import pytest

from fencepost.cluster.tls import client_context, server_context
from fencepost.config import ConfigError
from fencepost.config.rest import tls_config
from fencepost.embedded.java import find_java

PREFIX, PASSWORD = "listeners.https.", "of-the-store"


def keytool(*arguments: str) -> None:
    command = [str(find_java().path.with_name("keytool")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `own` and `trusted`, of keytool's usual type, and `old`, the former as JKS."""
    directory = tmp_path_factory.mktemp("stores")
    at = {name: str(directory / name) for name in ("own", "trusted", "old", "certificate")}
    password = ("-storepass", PASSWORD)
    pair = ("-alias", "a", "-keyalg", "EC", "-dname", "CN=worker", "-ext", "san=ip:127.0.0.1", "-validity", "9")
    keytool("-genkeypair", "-keystore", at["own"], *password, *pair)
    keytool("-exportcert", "-rfc", "-alias", "a", "-keystore", at["own"], *password, "-file", at["certificate"])
    keytool("-importcert", "-noprompt", "-keystore", at["trusted"], *password, "-file", at["certificate"])
    old = ("-destkeystore", at["old"], "-deststoretype", "JKS", "-deststorepass", PASSWORD)
    keytool("-importkeystore", "-srckeystore", at["own"], "-srcstorepass", PASSWORD, *old)
    return directory


def settings(**stores: Path) -> dict[str, object]:
    at = {f"{PREFIX}ssl.{name}.location": str(path) for name, path in stores.items()}
    return {**at, **{f"{PREFIX}ssl.{name}.password": PASSWORD for name in stores}}


async def _greeting(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """Return what a server sends to a client over TLS."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    serving = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=server)
    async with serving:
        port = serving.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        try:
            return await reader.read()
        finally:
            writer.close()


def test_stores_of_keytool_are_read(stores: Path) -> None:
    server = server_context(tls_config(settings(keystore=stores / "own"), PREFIX), PREFIX)
    client = client_context(tls_config(settings(truststore=stores / "trusted"), PREFIX), PREFIX)
    assert asyncio.run(_greeting(server, client)) == b"hello"


def test_a_jks_store_is_refused_with_the_command_that_converts_it(
    stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError) as caught:
        server_context(tls_config(settings(keystore=stores / "old"), PREFIX), PREFIX)
    found = re.search("`keytool (.*)`", str(caught.value))
    assert found is not None
    monkeypatch.chdir(stores)
    keytool(*shlex.split(found[1]), "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD)
    assert server_context(tls_config(settings(keystore=stores / "old.p12"), PREFIX), PREFIX)
