"""`spark.read.format("fencepost")` and `spark.readStream`: Kafka as Spark's own source reads it, without its jar.

`options` says what is asked for, `choice` and `bound` what an option says of which partitions to read, and of where to
begin or end; `source` asks the cluster, `plan` cuts and limits ranges, `batch` and `stream` are what Spark calls. A
partition's range is read on an executor, by `fencepost.kafka.read.range_input`.
"""
