"""How long encoding takes: processor time a record of 100 bytes. Run it by itself: `python -m bench.encode`."""

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from fencepost.kafka.codec import encode_cut
from fencepost.kafka.codec.compress import NONE, Codec
from fencepost.kafka.codec.encode import Rows, encode_batch
from fencepost.kafka.codec.encode_header import BatchProducer

_COUNTS = (200, 2_000, 20_000, 100_000)
_TURNS = 40
_NOW = 1_750_000_000_000
_PRODUCER = BatchProducer(1, 1, is_transactional=True)


def main() -> None:
    """Print the least of several turns in ns a record: what else runs on the machine only adds to it."""
    print("".join(f"{title:>14}" for title in ("rows", "plain", "with keys", "with times", "murmur2", "stamp")))
    for count in _COUNTS:
        print(f"{count:>14,}" + "".join(f"{1e9 * _least(case) / count:>14.1f}" for case in _cases(count)))


def _cases(count: int) -> Iterator[Callable[[], object]]:
    codec = Codec(NONE)
    values = pa.array([b"x" * (99 + index % 3) for index in range(count)], pa.binary())
    keys = pa.array([b"key-%08d" % index for index in range(count)], pa.binary())
    times = pa.array([_NOW + index // 100 for index in range(count)], pa.int64())
    batch = encode_batch(Rows(values, _NOW), codec)
    yield lambda: encode_batch(Rows(values, _NOW), codec)
    yield lambda: encode_batch(Rows(values, _NOW, keys), codec)
    yield lambda: encode_batch(Rows(values, times), codec)
    yield lambda: encode_cut.partitions(keys, 8)
    yield lambda: batch.stamped(_PRODUCER, 0)


def _least(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(_TURNS):
        start = time.thread_time()
        work()
        taken.append(time.thread_time() - start)
    return min(taken)


if __name__ == "__main__":
    main()
