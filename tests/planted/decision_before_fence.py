"""The decision about a micro-batch is read first, and only then the transactional id is taken over (E23)."""

from fencepost.spark.write.committer import Committer
from fencepost.spark.write.decision import DecisionTopic
from planted import replace


def _take_over(self: Committer, home: str) -> None:
    topic = DecisionTopic(self._config)
    self.decision, self._partition = topic.newest(self._key), topic.partition(self._key)
    topic.close()
    self._client.init_transactions(60.0)


replace(Committer, "_take_over", _take_over)
