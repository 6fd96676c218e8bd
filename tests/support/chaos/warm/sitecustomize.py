"""Python runs this as it starts, if the directory is in its path: the Python processes of Spark import less then.

Spark puts archives of PySpark first in their path. Python keeps no bytecode of an archive, so each of them compiles it
for 1.5 seconds. A daemon imports here what each of its workers would import after the fork. Nothing of the
data source is changed.
"""

import importlib
import sys

_MODULES = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "encodings.idna",
    "pyarrow.compute",
    "fencepost.kafka.kafka_library",
    "fencepost.spark.write.frame",
    "fencepost.spark.write.stream",
    "fencepost.spark.kafka_read.stream",
    "support.chaos.dying_source",
)

if any(argument.startswith("pyspark.") for argument in sys.orig_argv):
    from fencepost.spark.session.daemon import without_archives

    sys.path[:] = without_archives(sys.path)
    for name in _MODULES if "pyspark.daemon" in sys.orig_argv else ():
        importlib.import_module(name)
