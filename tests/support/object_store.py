"""An object store that speaks S3: moto's, served by this process, with PyArrow for a client that is not Hadoop's."""

import contextlib
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from werkzeug.serving import WSGIRequestHandler, make_server

from fencepost.embedded import checksum, home
from fencepost.embedded.home import default_cache, locked
from fencepost.embedded.java import find_java

HADOOP_VERSION = "3.5.0"
"""That of the `hadoop-client-api` that PySpark brings along."""
_SDK_VERSION = "2.40.2"
_SHA256 = Path(__file__).with_name("s3a.sha256")
_MODULE = f"""\
<ivy-module version="2.0">
  <info organisation="fencepost" module="s3a"/>
  <dependencies>
    <dependency org="org.apache.hadoop" name="hadoop-aws" rev="{HADOOP_VERSION}" conf="default" transitive="false"/>
    <dependency org="software.amazon.s3.analyticsaccelerator" name="analyticsaccelerator-s3" rev="1.3.1"
                conf="default" transitive="false"/>
    <dependency org="software.amazon.awssdk" name="s3" rev="{_SDK_VERSION}" conf="default"/>
    <dependency org="software.amazon.awssdk" name="s3-transfer-manager" rev="{_SDK_VERSION}" conf="default"/>
    <dependency org="software.amazon.awssdk" name="sts" rev="{_SDK_VERSION}" conf="default"/>
    <exclude org="commons-codec"/>
    <exclude org="commons-logging"/>
    <exclude org="io.netty"/>
    <exclude org="org.apache.httpcomponents"/>
    <exclude org="org.slf4j"/>
  </dependencies>
</ivy-module>
"""


def s3a_jars() -> list[Path]:
    """Return the jars, verified, and fetched if this user has none yet."""
    expected = checksum.listed(_SHA256.read_text(encoding="ascii"))
    directory = default_cache() / f"s3a-{HADOOP_VERSION}-{_SDK_VERSION}"
    jars, manifest = [directory / name for name in sorted(expected)], checksum.Manifest(directory / "manifest.json")
    with locked(directory.with_name(f"{directory.name}.lock")):
        if not manifest.matches(jars):
            _fetch(directory)
            checksum.verify(directory, expected)
            manifest.write(jars)
    return jars


def _fetch(directory: Path) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(_MODULE)
        file.flush()
        pattern = f"{directory}/[artifact]-[revision].[ext]"
        home.run(find_java(), ["-ivy", file.name, "-retrieve", pattern, "-types", "jar"], "S3A")


_KEY, SECRET = "AKIAFENCEPOST", "s3-hush-hush-of-tests"
_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}, say the tests</Message></Error>"
_STATUS = {
    "InvalidAccessKeyId": "403 Forbidden",
    "SlowDown": "503 Slow Down",
    "InternalError": "500 Oops",
    "Odd": "418 Teapot",
}

Fault = Callable[[str, str], str | None]
"""Is asked with method and path of each request, before it is carried out; returns the code of an error instead."""


class ObjectStore:
    """The store, at a port of this machine. It knows one access key."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self.server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        self._fault: Fault = lambda method, path: None
        endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self._client = S3FileSystem(
            access_key=_KEY,
            secret_key=SECRET,
            region="us-east-1",
            endpoint_override=endpoint,
            allow_bucket_creation=True,
        )
        self.spark_properties: Mapping[str, str] = {
            "spark.jars": ",".join(map(str, s3a_jars())),
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            "spark.hadoop.fs.s3a.attempts.maximum": "2",
            "spark.hadoop.fs.s3a.retry.limit": "2",
            "spark.hadoop.fs.s3a.retry.throttle.limit": "2",
            "spark.hadoop.fs.s3a.retry.throttle.interval": "100ms",
        }
        """With these Spark finds it."""
        self.environment: Mapping[str, str] = {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint,
        }
        """With these variables PyArrow finds it, and Spark needs no key."""

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        is_known = f"Credential={_KEY}/" in environ.get("HTTP_AUTHORIZATION", "")
        code = self._fault(environ["REQUEST_METHOD"], environ["PATH_INFO"]) if is_known else "InvalidAccessKeyId"
        if code is None:
            return self._app(environ, start_response)  # type: ignore[no-any-return]
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(_STATUS[code], [("Content-Type", "application/xml")])
        return [_ERROR.format(code=code).encode()]

    @contextlib.contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        """Have a say in each request inside."""
        self._fault = fault
        try:
            yield
        finally:
            self._fault = lambda method, path: None

    def make_bucket(self, bucket: str) -> None:
        self._client.create_dir(bucket)

    def objects(self, directory: str) -> list[str]:
        """Return the keys below a directory, sorted, the bucket in front; nothing where there is none."""
        selector = FileSelector(directory, allow_not_found=True, recursive=True)
        return sorted(each.path for each in self._client.get_file_info(selector) if each.type == FileType.File)

    def shown(self, directory: str) -> list[str]:
        """Return what a reader finds, who passes over names with a dot or an underscore in front."""
        return [path for path in self.objects(directory) if not re.search(r"/[._]", path)]

    def read(self, path: str) -> bytes:
        with self._client.open_input_stream(path) as stream:
            return bytes(stream.read())


@contextlib.contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run an empty store for as long as the block."""
    store = ObjectStore()
    thread = threading.Thread(target=store.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        store.server.shutdown()
        thread.join()


class _Quiet(WSGIRequestHandler):
    def log_request(self, *_: object) -> None:
        """Say nothing."""
