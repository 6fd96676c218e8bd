"""`spark.read.format("fencepost")` and `spark.readStream`: Kafka as Spark's own source reads it, without its jar.

`options` parses the options, and `selection` the partitions to read and where to begin or end. `source` asks the
cluster, and cuts and limits ranges. Spark calls `batch` and `stream`, and an executor reads a range with `reading`.
"""
