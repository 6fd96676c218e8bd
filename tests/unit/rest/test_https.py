"""HTTPS and client certificates, over real sockets."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from fencepost.cluster.tls import client_context, peer_context, server_context
from fencepost.config import ConfigError
from fencepost.config.rest import tls_config
from fencepost.config.worker import WorkerConfig
from fencepost.rest import Endpoint, RestServer, create_app
from fencepost.rest.access.access import UNPROTECTED, Access
from fencepost.rest.access.principal import Grant, Role, Rules
from fencepost.rest.app import RestOptions
from support.authority import Authority, Issued
from support.settings import SETTINGS

from .fake import FakeWorker

HOST, PREFIX = "127.0.0.1", "listeners.https."
ALICE = Rules((Grant("user:CN=alice,O=Acme", Role.ADMIN),))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> dict[str, str]:
    """The settings of a server with a good certificate, and of the authority of its callers."""
    return {
        "ssl.keystore.location": authority.issue("CN=server", HOST).pem(tmp_path / "server.pem"),
        "ssl.truststore.location": authority.bundle(tmp_path / "ca.pem"),
    }


Serve = Callable[..., str]


@pytest.fixture
def serve(worker: FakeWorker) -> Iterator[Serve]:
    """Serves the API with these settings, and returns its URL."""
    with ExitStack() as stack:

        def start(settings: dict[str, str], access: Access = UNPROTECTED) -> str:
            context = server_context(tls_config(_prefixed(settings), PREFIX), PREFIX)
            app = create_app(worker.operations, options=RestOptions(access=access))
            server = RestServer(Endpoint(app, HOST, 0, context))
            server.start()
            stack.callback(server.stop, 0)
            return f"https://{HOST}:{server.port}"

        yield start


def _prefixed(settings: dict[str, str]) -> dict[str, object]:
    return {PREFIX + key: value for key, value in settings.items()}


def client(settings: dict[str, str]) -> ssl.SSLContext:
    return client_context(tls_config(_prefixed(settings), PREFIX), PREFIX)


def get(url: str, context: ssl.SSLContext, path: str = "/connectors") -> httpx.Response:
    with httpx.Client(verify=context, timeout=60, trust_env=False) as rest:
        return rest.get(url + path)


def trusting(authority: Authority, tmp_path: Path, **more: str) -> ssl.SSLContext:
    """A caller that trusts the authority; `more` is its keystore."""
    return client({"ssl.truststore.location": authority.bundle(tmp_path / "trusted.pem"), **more})


def test_a_caller_that_trusts_the_authority_is_answered(
    serve: Serve, files: dict[str, str], authority: Authority, tmp_path: Path
) -> None:
    assert get(serve(files), trusting(authority, tmp_path)).json() == ["file"]


def test_pkcs12_stores_and_encrypted_keys_are_read(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    server = authority.issue("CN=server", HOST)
    store = {"ssl.keystore.location": server.pkcs12(tmp_path / "s.p12", "s3cret"), "ssl.keystore.password": "s3cret"}
    locked = {"ssl.keystore.location": server.pem(tmp_path / "s.pem", "s3cret"), "ssl.key.password": "s3cret"}
    ca = {"ssl.truststore.location": authority.pkcs12(tmp_path / "ca.p12", "trusted")}
    trusted = client({**ca, "ssl.truststore.password": "trusted", "ssl.truststore.type": "PKCS12"})
    for settings in (store, locked):
        assert get(serve(settings), trusted).status_code == 200


def test_certificates_are_read_from_the_settings_themselves(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    text = Path(authority.issue("CN=server", HOST).pem(tmp_path / "server.pem")).read_text()
    key, _, chain = text.partition("-----BEGIN CERTIFICATE-----")
    inline = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE-----{chain}"}
    ca = Path(authority.bundle(tmp_path / "ca.pem")).read_text()
    assert get(serve(inline), client({"ssl.truststore.certificates": ca})).status_code == 200


@pytest.mark.parametrize(
    ("issue", "reason"),
    [
        (lambda ca: ca.issue("CN=server", HOST, days=-1), "expired"),
        (lambda ca: ca.issue("CN=server", "other.example"), "mismatch"),
        (lambda ca: Authority("CN=stranger").issue("CN=server", HOST), "verify failed"),
    ],
)
def test_server_with_an_expired_or_wrong_certificate_is_not_trusted(
    serve: Serve, authority: Authority, tmp_path: Path, issue: Callable[[Authority], object], reason: str
) -> None:
    url = serve({"ssl.keystore.location": issue(authority).pem(tmp_path / "wrong.pem")})  # type: ignore[attr-defined]
    with pytest.raises(httpx.ConnectError, match=reason):
        get(url, trusting(authority, tmp_path))


def test_the_check_of_the_host_name_can_be_switched_off(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    url = serve({"ssl.keystore.location": authority.issue("CN=s", "other.example").pem(tmp_path / "s.pem")})
    context = trusting(authority, tmp_path, **{"ssl.endpoint.identification.algorithm": ""})
    assert get(url, context).status_code == 200


def test_plain_http_on_an_https_port_gets_no_answer(serve: Serve, files: dict[str, str]) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(serve(files).replace("https", "http") + "/", timeout=60)


def mutual(files: dict[str, str], kind: str = "required") -> dict[str, str]:
    return {**files, "ssl.client.auth": kind}


CERTIFIED = Access(has_certificates=True, rules=lambda: ALICE)


def test_the_subject_of_a_certificate_is_the_caller(
    serve: Serve, files: dict[str, str], authority: Authority, tmp_path: Path
) -> None:
    url = serve(mutual(files), CERTIFIED)
    alice = {"ssl.keystore.location": authority.issue("CN=alice,O=Acme").pem(tmp_path / "alice.pem")}
    eve = {"ssl.keystore.location": authority.issue("CN=alice,O=Evil").pem(tmp_path / "eve.pem")}
    assert get(url, trusting(authority, tmp_path, **alice)).json() == ["file"]
    assert get(url, trusting(authority, tmp_path, **eve)).json() == []
    refused = get(url, trusting(authority, tmp_path, **eve), "/connectors/file")
    assert (refused.status_code, "CN=alice,O=Evil" in refused.json()["message"]) == (403, True)


@pytest.mark.parametrize("kind", ["none", "expired", "stranger"])
def test_connection_without_a_valid_required_certificate_is_refused(
    serve: Serve, files: dict[str, str], authority: Authority, tmp_path: Path, kind: str
) -> None:
    own = {
        "none": dict,
        "expired": lambda: {"ssl.keystore.location": authority.issue("CN=a", days=-1).pem(tmp_path / "a.pem")},
        "stranger": lambda: {"ssl.keystore.location": Authority("CN=x").issue("CN=a").pem(tmp_path / "a.pem")},
    }[kind]()
    with pytest.raises(httpx.TransportError):
        get(serve(mutual(files), CERTIFIED), trusting(authority, tmp_path, **own))


def test_a_requested_certificate_may_be_missing_but_the_caller_is_then_unknown(
    serve: Serve, files: dict[str, str], authority: Authority, tmp_path: Path
) -> None:
    url = serve(mutual(files, "requested"), CERTIFIED)
    assert get(url, trusting(authority, tmp_path)).status_code == 401
    alice = {"ssl.keystore.location": authority.issue("CN=alice,O=Acme").pem(tmp_path / "alice.pem")}
    assert get(url, trusting(authority, tmp_path, **alice)).json() == ["file"]


def test_rotated_certificates_are_used_for_the_next_connections(
    serve: Serve, files: dict[str, str], authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, path = serve(files), Path(files["ssl.keystore.location"])
    before = trusting(authority, tmp_path)
    with httpx.Client(verify=before, timeout=60, trust_env=False) as kept:
        assert kept.get(url).status_code == 200
        newer = Authority("CN=newer")
        newer.issue("CN=server", HOST).pem(path)
        assert kept.get(url).status_code == 200  # on the connection that there is
    with pytest.raises(httpx.ConnectError):
        get(url, before)
    assert get(url, trusting(newer, tmp_path / "..")).status_code == 200
    path.write_text("-----BEGIN CERTIFICATE-----\nhalf of a file")
    assert get(url, trusting(newer, tmp_path / "..")).status_code == 200
    assert str(path) in caplog.text


def mounted(secret: Path, issued: Issued) -> None:
    """Write a Secret as Kubernetes does: the names lead to a directory that is replaced as a whole."""
    version = secret / f"..{issued.certificate.serial_number}"
    version.mkdir(parents=True)
    key, _, chain = Path(issued.pem(version / "both")).read_text().partition("-----BEGIN CERTIFICATE-----")
    (version / "tls.crt").write_text(f"-----BEGIN CERTIFICATE-----{chain}")
    (version / "tls.key").write_text(key)
    (secret / "..new").symlink_to(version.name)
    (secret / "..new").rename(secret / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (secret / name).is_symlink():
            (secret / name).symlink_to(f"..data/{name}")


def test_a_mounted_secret_is_a_key_store_and_may_be_renewed(
    serve: Serve, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret"
    mounted(secret, authority.issue("CN=server", HOST))
    url = serve({"ssl.keystore.location": str(secret)})
    assert get(url, trusting(authority, tmp_path)).json() == ["file"]
    newer = Authority("CN=newer")
    mounted(secret, newer.issue("CN=server", HOST))
    assert get(url, client({"ssl.truststore.location": newer.bundle(tmp_path / "newer.pem")})).status_code == 200
    with pytest.raises(httpx.ConnectError, match="verify failed"):
        get(url, trusting(authority, tmp_path))
    (secret / "tls.key").unlink()
    assert get(url, client({"ssl.truststore.location": str(tmp_path / "newer.pem")})).status_code == 200
    assert "tls.key cannot be read" in caplog.text


def test_rotated_authorities_decide_about_the_next_callers(
    serve: Serve, files: dict[str, str], authority: Authority, tmp_path: Path
) -> None:
    url, newer = serve(mutual(files), CERTIFIED), Authority("CN=newer")
    old = {"ssl.keystore.location": authority.issue("CN=alice,O=Acme").pem(tmp_path / "old.pem")}
    new = {"ssl.keystore.location": newer.issue("CN=alice,O=Acme").pem(tmp_path / "new.pem")}
    assert get(url, trusting(authority, tmp_path, **old)).json() == ["file"]
    newer.bundle(Path(files["ssl.truststore.location"]))
    with pytest.raises(httpx.TransportError):
        get(url, trusting(authority, tmp_path, **old))
    assert get(url, trusting(authority, tmp_path, **new)).json() == ["file"]


JKS = b"\xfe\xed\xfe\xed\x00\x00\x00\x02"


@pytest.mark.parametrize(
    ("content", "more", "text"),
    [
        (None, {}, "No such file"),
        (JKS, {}, "keytool -importkeystore"),
        (b"nonsense", {}, "neither PEM nor PKCS12"),
        (b"0nonsense", {"ssl.keystore.password": "s3cret"}, "ssl.keystore.password is wrong"),
        (b"-----BEGIN CERTIFICATE-----\n", {}, "no certificate with its key"),
    ],
)
def test_unreadable_store_is_named_with_its_setting_but_not_its_password(
    tmp_path: Path, content: bytes | None, more: dict[str, str], text: str
) -> None:
    path = tmp_path / "store"
    if content is not None:
        path.write_bytes(content)
    settings = {"ssl.keystore.location": str(path), **more}
    with pytest.raises(ConfigError, match=text) as caught:
        server_context(tls_config(_prefixed(settings), PREFIX), PREFIX)
    assert str(caught.value).startswith("listeners.https.ssl.keystore.location: ")
    assert "s3cret" not in str(caught.value)


def test_wrong_or_missing_key_password_does_not_prompt_on_the_terminal(authority: Authority, tmp_path: Path) -> None:
    path = authority.issue("CN=s", HOST).pem(tmp_path / "s.pem", "s3cret")
    for more in ({}, {"ssl.key.password": "wrong"}):
        settings = tls_config(_prefixed({"ssl.keystore.location": path, **more}), PREFIX)
        with pytest.raises(ConfigError, match="password is wrong"):
            server_context(settings, PREFIX)


def test_an_https_listener_needs_a_certificate_and_authorities_for_its_callers(
    files: dict[str, str],
) -> None:
    with pytest.raises(ConfigError, match="needs a key and a certificate"):
        server_context(tls_config({}, PREFIX), PREFIX)
    del files["ssl.truststore.location"]
    with pytest.raises(ConfigError, match=r"listeners\.https\.ssl\.truststore\.location"):
        server_context(tls_config(_prefixed(mutual(files)), PREFIX), PREFIX)


def test_http_worker_can_call_https_workers(files: dict[str, str], serve: Serve) -> None:
    of_file = {**SETTINGS, "listeners": "http://127.0.0.1:1"}
    assert peer_context(WorkerConfig(of_file)) is None
    context = peer_context(WorkerConfig({**of_file, **_prefixed(files)}))
    assert context is not None
    assert get(serve(files), context).status_code == 200


def test_settings_without_the_prefix_count_only_if_none_has_it() -> None:
    shared = {"ssl.keystore.location": "/shared.pem", "ssl.client.auth": "required"}
    assert tls_config(shared, PREFIX).ssl_keystore_location == "/shared.pem"
    own = tls_config({**shared, PREFIX + "ssl.keystore.location": "/own.pem"}, PREFIX)
    assert (own.ssl_keystore_location, own.client_auth) == ("/own.pem", "none")
    with pytest.raises(ConfigError, match=r"configuration listeners\.https\.ssl\.client\.auth"):
        tls_config({PREFIX + "ssl.client.auth": "maybe"}, PREFIX)
