"""What several tests share. Where to look, and where a new file belongs:

brokers     `quick` starts one cheaply, `brokers` several; `secured`, `old_kafka`, `quotas`, `tokens` are special ones.
faults      `proxy` stands between clients and a broker and acts on chosen requests; `chaos.gate` cuts off a port.
workers     `worker` starts `fencepost worker`, `cluster` several, `light_worker` one without Spark; also `footprint`.
one task    `sink_stage`, `stream_stage`, `retention_scene`: the real parts in this process, without a worker;
            `task_spec`, `task_context`, `settings` make their arguments, `smt` and `no_exception` their plug-ins.
data        `log_writer`, `feed` write topics; `batch_records`, `batch_topic`, `slow_batch` make and compare batches.
groups      `member`, `group_members`, `group_commit`; `old_style` are programs from before KIP-447.
elsewhere   `java_program`, `object_store`, `s3a`, `partitioner`: Java clients, S3, Java's partitioner.
pytest      `seed`, `shared`, `long_form`, `timing`, `forked`, `own_pytest`, `both_ends`, `board`, `clients`.
packages    `chaos` plans and carries out faults under load, `late` delivers single requests late, `mirror` compares
            two clusters.
"""
