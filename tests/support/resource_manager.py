"""YARN on this machine, with the archive by which its containers get Fencepost, and the API of Kubernetes.

They are Hadoop's own cluster for tests, and the mock of the client of Kubernetes that Spark has.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import fencepost
from fencepost.config.file import parse_properties
from fencepost.embedded.home import pyspark_jars
from fencepost.embedded.java import find_java
from fencepost.testing import eventually
from support.java_program import PROGRAMS, QUICK_JVM, ensure_compiler
from support.maven_plugin import fetched
from support.standalone import die_with_parent, end

_PAGE = Path(__file__).parents[2] / "docs/how-to/run-on-a-spark-cluster.md"
_HADOOP, _BOUNCY_CASTLE, _JUNIT, _FABRIC8 = "3.5.0", "1.82", "5.13.4", "7.6.1"
_STARTED_S = 240
_LOGGING = ("slf4j-api-*", "log4j-slf4j2-impl-*", "log4j-api-*", "log4j-core-*", "log4j-1.2-api-*")
_PROPERTIES = {
    # A resource manager has this in a file of the distribution.
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.scheduler.maximum-allocation-vcores": "8",
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "8192",
    "yarn.minicluster.yarn.nodemanager.resource.cpu-vcores": "32",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
    "yarn.nodemanager.delete.debug-delay-sec": "3600",  # what a container had is there when it has ended
}


@contextmanager
def yarn_cluster(directory: Path) -> Iterator[None]:
    """Run a cluster whose files are in a directory, its configuration in `conf`."""
    logging = [jar for name in _LOGGING for jar in pyspark_jars().glob(f"{name}.jar")]
    hadoop = fetched("org.apache.hadoop", ["hadoop-client-minicluster"], _HADOOP)
    needed = [
        fetched("org.bouncycastle", ["bcpkix-jdk18on"], _BOUNCY_CASTLE),
        fetched("org.junit.jupiter", ["junit-jupiter-api"], _JUNIT),
    ]
    jars = [*logging, *(each / "*" for each in (hadoop, *needed))]
    properties = [f"{name}={value}" for name, value in _PROPERTIES.items()]
    with _serving("YarnCluster", jars, directory, "conf/yarn-site.xml", *properties):
        yield


@contextmanager
def kubernetes_api(directory: Path) -> Iterator[str]:
    """Serve the API; yields its URL. It keeps what it is given, and starts no pod."""
    jars = [pyspark_jars() / "*", fetched("io.fabric8", ["kubernetes-server-mock"], _FABRIC8) / "*"]
    with _serving("KubernetesApi", jars, directory, "port") as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _serving(program: str, jars: Sequence[Path], directory: Path, made: str, *arguments: str) -> Iterator[str]:
    """Run a program in a directory until the block ends, which begins with the file that the program makes."""
    ensure_compiler()
    directory.mkdir()
    java, log = find_java().path.resolve(), directory / "log"
    options = [*QUICK_JVM, "-XX:+UseSerialGC", "-Xmx512m", "-Dlog4j2.level=info"]
    command = [str(java), *options, "-cp", os.pathsep.join(map(str, jars)), str(PROGRAMS / f"{program}.java")]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            cwd=directory,
            env={"JAVA_HOME": str(java.parents[1]), "PATH": os.environ["PATH"]},  # containers get all of it
            preexec_fn=die_with_parent,
        )

    try:
        eventually(lambda: process.poll() is not None or (directory / made).exists(), within_s=_STARTED_S)
        assert process.poll() is None, log.read_text()[-4000:]
        yield (directory / made).read_text()
    finally:
        end(process)


def settings_of_the_page(master: str) -> dict[str, str]:
    """Return the `spark.*` that the page sets where spark.master begins so."""
    (text,) = re.findall(
        rf"^```properties\n(spark\.master={master}.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return {key: value for key, value in parse_properties(text).items() if key.startswith("spark.")}


def settings_of_this_machine(directory: Path) -> dict[str, str]:
    """Return what keeps containers small, Spark's jars where they are, and all files in a directory."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.yarn.am.memory": "512m",
        "spark.yarn.jars": f"local:{pyspark_jars()}/*",
        "spark.yarn.stagingDir": str(directory),
    }


def make_environment(directory: Path) -> None:
    """Make `environment` with Fencepost, as the page says, and its archive.

    The libraries that Fencepost needs are taken from where they are: to pack all of them would take minutes. Fencepost
    itself is not found there.
    """
    environment = directory / "environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    package = Path(fencepost.__file__).parent
    for each in (package, package.with_name("pyspark_fencepost")):
        shutil.copytree(each, packages / each.name, ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    archive = directory / "environment.tar.gz"
    subprocess.run(["tar", "--create", "--gzip", "--file", archive, "--directory", environment, "."], check=True)


def files_with(directory: Path, text: str) -> list[Path]:
    """Return the files below a directory that have a text in them."""
    found = []
    for file in directory.rglob("*"):
        with contextlib.suppress(OSError):  # it is gone
            if file.is_file() and not file.is_symlink() and text.encode() in file.read_bytes():
                found.append(file)
    return found
