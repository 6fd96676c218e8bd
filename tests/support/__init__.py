"""What several tests share; what one test needs is in that test. Where to look, and where a new file belongs:

brokers     `quick` starts one cheaply, `brokers` several; `secured`, `quotas`, `tokens` are special ones.
faults      `proxy` is between clients and a broker and acts on chosen requests; `chaos.gate` cuts off a port.
            `small_disk` mounts a disk that is full soon.
workers     `worker` starts `fencepost worker`, `cluster` several, `light_worker` one without Spark.
            `spark_python` is for the processes of Python that Spark starts.
stages      the real parts of a task: `source_stage` and `group_stage` (sinks, streams) without a broker, `sink_stage`,
            `stream_stage` and `retention_scene` on one. Mirrors: `mirror.mirror_process`; REST: `unit/rest/fake`.
arguments   `task_spec`, `task_context`, `settings`, `memory_topic` (a config topic), `smt`, `no_exception` (plug-ins),
            `plugins` (the registry of plug-ins, with classes of a test).
authors     `new_project` (what `fencepost new` writes), `conformance_verdicts` (what a conformance class says).
data        `log_writer`, `feed` write topics; `batch_records`, `batch_topic`, `slow_batch` make and compare batches.
groups      `member`, `group_members`, `group_commit`; `old_style` are programs from before KIP-447.
registries  `schema_registry` is a real one for the whole run, `memory_registry` stands in for one.
            `scripted_registry` answers what a test wants, and `avro_topic` writes topics of Avro.
services    `http_answers` answers HTTP requests by a function of a test, with a `certificate` if it likes;
            `gcp_account` makes an account of Google's.
made up     for Hypothesis: `schemas` and values, `registry_schemas`, `avro_values`; `column_records` also compares
            transforms on columns with those on records. `kafka_values`: what ours make of cases recorded from Java.
elsewhere   `java_program`, `object_store`, `hadoop`, `partitioner`: clients and partitioner of Java, S3, Hadoop.
            `java_plugins`: plug-ins for a host of Java plug-ins, Kafka's own and made up ones; `host_processes`.
            `postgres` and `mariadb` are servers, the former with Debezium's plug-in for it.
            `maven_plugin` fetches plug-ins.
no JVM      `scripted_plugins`: a registry whose Java plug-ins are `jars` without code, and whose hosts are scripted
            (`java_host`). `hosted_parts`: transforms and converters of another process, which is scripted.
pytest      `seed`, `shared`, `long_form`, `drawn`, `timing`, `forked`, `own_pytest`, `both_ends`, `board`, `clients`.
packages    `chaos` plans and carries out faults under load, `late` delivers single requests late, `mirror` compares
            two clusters.
"""
