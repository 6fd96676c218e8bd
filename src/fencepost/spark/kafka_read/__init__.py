"""`spark.read.format("fencepost")` and `spark.readStream`: Kafka as Spark's own source reads it, without its jar.

`options` parses the options, `choice` the partitions to read, and `bound` where to begin or end. `source` asks the
cluster, `plan` cuts and limits ranges, and Spark calls `batch` and `stream`. An executor reads a partition's range with
`fencepost.kafka.read.range_input`.
"""
