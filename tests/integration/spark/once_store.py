"""A store without rename, as Spark sees one: a file appears when its stream is closed, whole. On this machine's disk.

It is Java, compiled in Spark's JVM by the compiler that Spark brings along. `once.fault` of Hadoop's configuration says
what is to go wrong: `write` or `close` of what is created from then on.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from support.hadoop import jvm_of

_SOURCE = """
import java.io.*;
import java.net.URI;
import org.apache.hadoop.fs.*;
import org.apache.hadoop.util.Progressable;

public class OnceFileSystem extends RawLocalFileSystem {
    public URI getUri() { return URI.create("once:///"); }

    public String getScheme() { return "once"; }

    public boolean rename(Path from, Path to) throws IOException {
        throw new UnsupportedOperationException("there is no rename here");
    }

    public FSDataOutputStream create(Path path, boolean overwrite, int buffer, short replication, long block,
                                     Progressable progress) throws IOException {
        if (!overwrite && exists(path)) throw new FileAlreadyExistsException(path.toString());
        File goal = pathToFile(path);
        File hidden = new File(goal.getParentFile(), "." + goal.getName() + "." + System.nanoTime());
        return new FSDataOutputStream(new Upload(new FileOutputStream(hidden), hidden, goal, getConf()), null);
    }

    public static class Upload extends OutputStream implements Abortable {
        private final OutputStream out; private final File hidden; private final File goal;
        private final String fault; private boolean isOver;

        Upload(OutputStream out, File hidden, File goal, org.apache.hadoop.conf.Configuration conf) {
            this.out = out; this.hidden = hidden; this.goal = goal; this.fault = conf.get("once.fault", "");
        }

        public void write(int b) throws IOException { out.write(b); }

        public void write(byte[] bytes, int from, int count) throws IOException {
            out.write(bytes, from, count / 2);
            if (fault.equals("write")) throw new IOException("the connection was lost");
            out.write(bytes, from + count / 2, count - count / 2);
        }

        public void close() throws IOException {
            if (isOver) return;
            isOver = true;
            out.close();
            if (fault.equals("close")) throw new IOException("the store is busy");
            if (!hidden.renameTo(goal)) throw new IOException("not shown");
        }

        public Abortable.AbortableResult abort() {
            isOver = true;
            hidden.delete();
            return null;
        }
    }
}
"""


class OnceStore:
    """The scheme `once`, in the JVM of a session."""

    def __init__(self, session: Any) -> None:
        jvm, self._conf = jvm_of(session)
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(_SOURCE)
        self._conf.setClassLoader(compiler.getClassLoader())
        self._conf.set("fs.once.impl", "OnceFileSystem")

    @contextlib.contextmanager
    def failing(self, fault: str) -> Iterator[None]:
        """Have each `write`, or `close`, of what is created inside fail."""
        self._conf.set("once.fault", fault)
        yield
        self._conf.unset("once.fault")
