"""The verdict on a mirror finds nothing wrong with Java's MirrorMaker, which delivers records exactly once."""

import pytest

from support.long_form import IS_LONG
from support.mirror.mirror_maker import MirrorMaker
from support.mirror.two_clusters import Naming, TwoClusters
from support.mirror.workload import NOT_MIRRORED, Outcome, Workload, Written

SEED = 3
TOPICS = (Written("w-plain", 3, empty=frozenset({2})), Written("w-compacted", 2, is_compacted=True))
_START_S = 180


@pytest.mark.skipif(not IS_LONG, reason="FENCEPOST_CHAOS=long runs this")
@pytest.mark.timeout(900)
def test_mirror_maker_copies_a_workload_exactly_once(source_kafka, kafka, tmp_path, capfd):
    addresses = {"source": source_kafka.bootstrap_servers, "target": kafka.bootstrap_servers}
    settings = {"topics": "w-.*", "config.properties.exclude": NOT_MIRRORED}
    with (
        TwoClusters(Naming("w-", has_syncs_at_target=False), source_kafka, kafka) as clusters,
        Workload(source_kafka.bootstrap_servers, SEED, TOPICS) as workload,
    ):
        workload.write(90)
        clusters.await_compacted(workload.given, "w-compacted")
        with MirrorMaker(tmp_path, addresses, settings=settings) as maker:
            workload.write(60)
            front = workload.front()
            workload.write_everywhere()
            try:
                clusters.await_mirrored(front, _START_S)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{maker.last_lines()}") from None
            verdicts = clusters.verdicts(workload.given, is_each_synced=False)
    with capfd.disabled():
        print("", *verdicts.values(), sep="\n")
    assert workload.given.outcomes[Outcome.ABORTED] > 15
    assert all(verdict.is_clean for verdict in verdicts.values())
