"""Hadoop in the JVM of a session, which PySpark reaches by private names."""

from typing import Any

from fencepost.builtin.connector.files.store import HadoopFiles


def jvm_of(session: Any) -> tuple[Any, Any]:
    """Return the JVM of a session, and its Hadoop configuration."""
    return session._jvm, session._jsc.hadoopConfiguration()


def hadoop_files(session: Any, root: str) -> HadoopFiles:
    """Return the store of a files sink whose file system only Hadoop knows."""
    jvm, conf = jvm_of(session)
    return HadoopFiles(root, session, jvm.org.apache.hadoop.fs.Path(root).getFileSystem(conf))
