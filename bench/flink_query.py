"""Flink SQL from Kafka to Kafka, exactly once.

Runs as a process of its own, by the Python of `bench.query_peers`: `python -m bench.flink_query BOOTSTRAP CORES`
reads orders from its standard input: what to do, topics, a directory for checkpoints and the milliseconds between them,
with tabs between. `project` and `count` answer when all that was there is done; `follow` answers when it has begun, and
ends with the next line.
"""

import os
import sys
from typing import Any

from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment

_FOLLOW, _COUNT = "follow", "count"
_PROJECTED, _COUNTED = "SELECT k, UPPER(v)", "SELECT k, CAST(COUNT(*) AS STRING)"
_TUNED = {
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "500 ms",
    "table.exec.mini-batch.size": "50000",
}
"""For a query over what is there: a key's changes within a mini-batch are one."""
_PRODUCER = {"linger.ms": "5", "batch.size": "131072", "transaction.timeout.ms": "600000"}


def main(bootstrap: str, cores: str) -> None:
    """Start a cluster in Flink's JVM, then do what comes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Flink prints is no answer
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    environment.get_config().set("parallelism.default", cores)
    for key, value in _cluster(int(cores)).items():
        environment.get_config().set(key, value)
    print("ready", file=answers, flush=True)
    following = None
    for order in sys.stdin:
        if following is not None:
            following.get_job_client().cancel().result()
            following = None
        if order.strip():
            what, source, target, checkpoints, interval_ms = order.rstrip("\n").split("\t")
            config = environment.get_config()
            config.set("execution.checkpointing.dir", f"file://{checkpoints}")
            config.set("execution.checkpointing.interval", f"{interval_ms} ms")
            for key, value in _TUNED.items():
                if what != _FOLLOW:
                    config.set(key, value)
            started = _started(environment, bootstrap, what, source, target)
            if what == _FOLLOW:
                following = started
            else:
                started.wait()
        print("done", file=answers, flush=True)


def _cluster(cores: int) -> dict[str, str]:
    """Start it, so that a query does not wait for one of its own. Returns how it is reached."""
    jvm = get_gateway().jvm
    configuration = jvm.org.apache.flink.configuration.Configuration()
    configuration.setString("rest.bind-port", "0")
    builder = jvm.org.apache.flink.runtime.minicluster.MiniClusterConfiguration.Builder()
    builder = builder.setConfiguration(configuration).setNumTaskManagers(1).setNumSlotsPerTaskManager(cores)
    cluster = jvm.org.apache.flink.runtime.minicluster.MiniCluster(builder.build())
    cluster.start()
    address = cluster.getRestAddress().get()
    return {"execution.target": "remote", "rest.address": address.getHost(), "rest.port": str(address.getPort())}


def _started(environment: Any, bootstrap: str, what: str, source: str, target: str) -> Any:
    common = {"properties.bootstrap.servers": bootstrap, "key.format": "raw", "value.format": "raw"}
    reads = {
        **common,
        "connector": "kafka",
        "topic": source,
        "scan.startup.mode": "earliest-offset",
        "properties.isolation.level": "read_committed",
        "key.fields": "k",
        "value.fields-include": "EXCEPT_KEY",
        **({} if what == _FOLLOW else {"scan.bounded.mode": "latest-offset"}),
    }
    writes = {
        **common,
        "topic": target,
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": target,
        "value.fields-include": "EXCEPT_KEY",
        **{f"properties.{key}": value for key, value in _PRODUCER.items()},
    }
    if what == _COUNT:
        target_columns, rows = "k STRING, v STRING, PRIMARY KEY (k) NOT ENFORCED", _COUNTED
        writes["connector"] = "upsert-kafka"
    else:
        target_columns, rows = "k STRING, v STRING", _PROJECTED
        writes |= {"connector": "kafka", "key.fields": "k"}
    for table, columns, options in (("source", "k STRING, v STRING", reads), ("target", target_columns, writes)):
        told = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        environment.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS `{table}`")
        environment.execute_sql(f"CREATE TEMPORARY TABLE `{table}` ({columns}) WITH ({told})")
    return environment.execute_sql(f"INSERT INTO `target` {rows} FROM `source`{' GROUP BY k' * (what == _COUNT)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
