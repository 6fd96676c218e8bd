"""Topics that empty themselves, while sinks, other groups, transactions, topics and leaders come and go (E9).

What every sink has committed is known here: most of them never run, and the test commits in their name. A verdict is
held over every record that gives something up, and over where logs begin.
"""

import os
import random
from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from support.chaos.retention_rounds import Rounds
from support.long_form import IS_LONG

ROUNDS = int(os.environ.get("FENCEPOST_CHAOS_ROUNDS", "500" if IS_LONG else "20"))


@pytest.mark.chaos
@pytest.mark.timeout(3600 if IS_LONG else 1800)
def test_e9_nothing_is_deleted_before_sinks_commit_or_while_other_groups_read(
    kafka: EmbeddedKafka, tmp_path: Path, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with capfd.disabled(), Rounds(kafka.bootstrap_servers, tmp_path, random.Random(seed), str(seed)) as rounds:
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        for number in range(ROUNDS):
            rounds.act(number)
            rounds.judge()
        rounds.end()
        print(rounds.summary)
