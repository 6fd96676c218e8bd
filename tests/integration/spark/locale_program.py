"""A program that reads and writes files whose names are not ASCII; run in a locale that has nothing else.

Its argument is a directory; it prints what it found there, as JSON.
"""

import json
import sys
from pathlib import Path

from fencepost.api import Epoch, OffsetRange
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.builtin.connector.spool.source import SpoolDirectorySource
from fencepost.spark.session.session import SparkRuntime


def main(root: str, properties: str) -> None:
    """Read a directory, and write another."""
    runtime = SparkRuntime(json.loads(properties))
    runtime.start()
    session = runtime.session
    source = SpoolDirectorySource({"input.path": f"{root}/entrée", "topic": "t", "reader.header": "true"})
    splits = list(source.splits(session))
    rows = [row.name for split in splits for row in source.read(session, split).collect()]
    sink = FilesSink({"name": "c", "path": f"{root}/出力", "format": "csv", "partition.by": "place"})
    sink.owner = "cluster/connect-c"
    frame = session.sql("SELECT 'ü' AS name, 'Zürich' AS place UNION ALL SELECT 'ö', 'Łódź'").coalesce(1)
    epoch = Epoch(1, (OffsetRange("t", 0, 0, 2),), "e")
    sink.publish(session, epoch, sink.write(session, frame, epoch))
    python = session.sparkContext.parallelize([f"{root}/entrée/café.csv"], 1).map(lambda path: Path(path).exists())
    found = {"names": sorted(split.partition["file"].rpartition("/")[2] for split in splits), "rows": sorted(rows)}
    found |= {"python": python.collect(), "jnu": session._jvm.java.lang.System.getProperty("sun.jnu.encoding")}
    print(json.dumps(found))
    runtime.stop()


main(*sys.argv[1:])
