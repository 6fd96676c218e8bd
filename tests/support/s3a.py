"""Hadoop's file system for S3 (S3A), with the modules of the AWS SDK that it uses: 13 MB.

What its own POM names is the bundle of the whole SDK, 600 MB. Netty, HTTP client and loggers are those of Spark.
"""

import tempfile
from pathlib import Path

from fencepost.embedded import checksum, ivy
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
        ivy.run(find_java(), ["-ivy", file.name, "-retrieve", pattern, "-types", "jar"], "S3A")
