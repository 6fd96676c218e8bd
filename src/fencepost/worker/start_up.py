"""The order in which a worker starts.

1. REST answers (health says "starting"). 2. Kafka is reached; internal topics exist and are right. 3. Config and status
topics are read to their ends. 4. In parallel with 3 the group is joined and has a leader. 5. Ids that this worker's
predecessor held are fenced together. 6. Connectors and tasks run. Spark starts in parallel with all steps; tasks wait
for it, REST does not.
"""

import logging
import threading
from dataclasses import dataclass

from fencepost.worker.config_changes import ConfigChanges
from fencepost.worker.housekeeping import Housekeeping
from fencepost.worker.life import WorkerLife
from fencepost.worker.membership.lifeline import Lifeline
from fencepost.worker.membership.membership import Membership
from fencepost.worker.supervision.supervision import Supervision
from fencepost.worker.topics import WorkerTopics

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StartUp:
    """Starts the parts of a worker, in a thread of its own."""

    worker_id: str
    life: WorkerLife
    topics: WorkerTopics
    membership: Membership
    supervision: Supervision
    changes: ConfigChanges
    lifeline: Lifeline
    housekeeping: Housekeeping

    def start(self) -> None:
        """Start with step 2."""
        threading.Thread(target=self._run, name="start-up", daemon=True).start()

    def stop_checks(self) -> None:
        """Stop the checks that were started."""
        self.lifeline.stop()
        self.housekeeping.stop()

    def _run(self) -> None:
        try:
            self._come_up()
        except Exception as error:
            self.life.fail(error)

    def _come_up(self) -> None:
        life = self.life
        life.retry("connecting to Kafka", self.topics.connect)  # 2
        self.topics.watch()
        self.supervision.offsets.start()
        with life.progress.doing("joining the group"):
            self.membership.join()  # 4, in parallel with 3: a leader decides only after that
        self.topics.read(after_config=self.membership.leader.start)  # 3
        life.retry("fencing what this worker's predecessor held", self.membership.end_predecessors)  # 5
        life.retry("announcing this worker", self.membership.announce)
        self.membership.leader.wake()
        self.supervision.start()
        self.lifeline.start()
        self.membership.watch_others()
        self.housekeeping.start()
        life.progress.is_started = True
        self.changes.take_work(self.topics.snapshot)  # 6
        log.info("worker %s is ready", self.worker_id)
