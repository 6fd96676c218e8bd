"""The driver of a query without Spark: commits one micro-batch of one record, and prints whether it was written.

Its arguments: addresses of brokers, topic, key of the query, number of the batch, and the value of the record.
"""

import sys
import tempfile

import pyarrow as pa

from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.wire.requests import Targets
from fencepost.spark.row.columns import RecordMaker
from fencepost.spark.write.committer import PendingBatch, commit_batch
from fencepost.spark.write.encode import Encoder
from fencepost.spark.write.folder import Folder
from fencepost.spark.write.options import WriterConfig
from fencepost.spark.write.staging import stage


def main() -> None:
    servers, topic, key, number, value = sys.argv[1:]
    config = WriterConfig.of({"kafka.bootstrap.servers": servers, "topic": topic})
    conf = config.conf(ClientKind.PRODUCER)
    targets = Targets(conf)
    encoder = Encoder(RecordMaker(["value"], topic), targets.get, conf, 0)
    staged = stage(encoder, [pa.record_batch({"value": [value]})], Folder(tempfile.gettempdir()))
    batch = PendingBatch(key, int(number), f"offsets of {number}")
    print("written" if commit_batch(config, batch, [staged], {}) else "skipped")


if __name__ == "__main__":
    main()
