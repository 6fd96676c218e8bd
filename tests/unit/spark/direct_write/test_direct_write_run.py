"""What a partition of a direct write may commit after a comparison."""

import pyarrow as pa
import pytest

from fencepost.config import ConfigError
from fencepost.kafka.produce.clients import sends_batches
from fencepost.kafka.setting.table import ClientKind
from fencepost.spark.direct_write.digest import digest_rows
from fencepost.spark.direct_write.marker import WriteDiffersError
from fencepost.spark.direct_write.options import DirectWriteOptions
from fencepost.spark.direct_write.plan import Expected, WritePlan
from fencepost.spark.direct_write.run import DirectWriteRun
from fencepost.spark.row.columns import RecordMaker

COLUMNS = RecordMaker(["value"], "t")
OPTIONS = {"topic": "t", "write.id": "w", "write.partitions": "1", "kafka.bootstrap.servers": "localhost:1"}


def rows(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"value": list(values)})


def run_after_comparing(*values: str) -> DirectWriteRun:
    options = DirectWriteOptions.parse(OPTIONS | {"rows.per.commit": "2"})
    found = digest_rows([rows(*values)], COLUMNS.outgoing, 0, options.rows_per_commit)
    plan = WritePlan("run", "struct<value:string>", {}, [Expected(found.rows, found.ends)], {})
    return DirectWriteRun(options, plan, 0, COLUMNS)


def test_compared_rows_are_committed_in_parts_and_whole() -> None:
    run = run_after_comparing("a", "b", "c")
    run.outgoing(rows("a", "b"))
    assert run.offset_records({"rows": 2})
    run.outgoing(rows("c"))
    assert run.offset_records({"rows": 3, "done": True})


def test_commit_fails_when_rows_differ_from_the_compared_ones() -> None:
    run = run_after_comparing("a", "b", "c")
    run.outgoing(rows("a", "c"))
    with pytest.raises(WriteDiffersError, match="partition 0 changed since it was compared"):
        run.offset_records({"rows": 2})


def test_partition_is_not_done_when_it_ends_earlier_than_compared() -> None:
    run = run_after_comparing("a", "b", "c")
    run.outgoing(rows("a", "b"))
    with pytest.raises(WriteDiffersError, match="partition 0 changed since it was compared"):
        run.offset_records({"rows": 2, "done": True})


def test_kafka_client_option_is_refused_with_the_right_option() -> None:
    with pytest.raises(ConfigError, match=r"option kafka\.client is not a client setting: set producer\.client"):
        DirectWriteOptions.parse(OPTIONS | {"kafka.client": "batch"})


@pytest.mark.parametrize(("client", "is_batch"), [("", False), ("auto", False), ("librdkafka", False), ("Batch", True)])
def test_rows_are_written_by_the_chosen_client_and_the_rest_by_librdkafka(client: str, *, is_batch: bool) -> None:
    options = DirectWriteOptions.parse(OPTIONS | ({"producer.client": client} if client else {}))
    run = DirectWriteRun(options, WritePlan("run", "struct<value:string>", {}, None, {}), 0, COLUMNS)
    assert sends_batches(run.producer_conf) is is_batch
    assert not sends_batches(options.conf(ClientKind.PRODUCER))
