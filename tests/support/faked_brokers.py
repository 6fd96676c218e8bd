"""Brokers that answer the wire client, each with a view of its own: one may be cut off from the others."""

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse, OffsetForLeaderEpochResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse

from fencepost.kafka.errors import LostError
from fencepost.kafka.wire.access import Access, Address

TOPIC, TOPIC_ID = "t", UUID(int=7)
HOST = "broker"
_numbers = itertools.count()


@dataclass
class FakedBroker:
    """What one broker says of the only partition of a topic, and of the coordinator of everything.

    `begins`: the first offset of each leader epoch in its log.
    """

    node: int
    leader: int
    epoch: int
    end: int
    coordinator: int = 0
    is_hanging: bool = False
    begins: dict[int, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


class FakedBrokers:
    def __init__(self, brokers: Sequence[FakedBroker]) -> None:
        self.brokers = {each.node: each for each in brokers}
        self.connections = 0
        """How many were made."""
        self.host = f"{HOST}-{next(_numbers)}"  # what a process has learned of other brokers is not of these

    def servers(self, *order: int) -> str:
        return ",".join(f"{self.host}:{node}" for node in order or self.brokers)

    def connect(self, address: Address, access: Access, deadline_s: float) -> "FakedConnection":
        self.connections += 1
        return FakedConnection(self, self.brokers[address[1]], address, access)


class FakedConnection:
    def __init__(self, brokers: FakedBrokers, broker: FakedBroker, address: Address, access: Access) -> None:
        self._brokers, self._broker, self.address, self.access = brokers, broker, address, access
        self._due: list[tuple[Any, Callable[[Any], None]]] = []
        self._is_closed = threading.Event()
        self.features: dict[str, int] = {}
        self.is_throttled = self.may_have_ended = False

    @property
    def unanswered(self) -> int:
        return len(self._due)

    def is_usable(self) -> bool:
        return not self._is_closed.is_set()

    def close(self) -> None:
        self._is_closed.set()

    def version(self, request: Any, oldest: int, newest: int) -> int:
        return newest

    def send(self, request: Any, version: int, on_answer: Callable[[Any], None], deadline_s: float) -> None:
        self._due.append((request, on_answer))

    def take(self, deadline_s: float, leave: int = 0) -> None:
        if not self.take_coming(deadline_s, leave):
            raise LostError("timed out", is_sent=True, is_late=True)

    def take_coming(self, until_s: float, leave: int = 0) -> bool:
        if self._broker.is_hanging or self._is_closed.is_set():
            return False
        while len(self._due) > leave:
            request, on_answer = self._due.pop(0)
            on_answer(self._answer(request))
        return True

    def ask(self, request: Any, version: int, deadline_s: float) -> Any:
        found: list[Any] = []
        self.send(request, version, found.append, deadline_s)
        self.take(deadline_s)
        return found[0]

    def _answer(self, request: Any) -> Any:
        name = type(request).__name__
        self._broker.asked.append(name)
        answer = {
            "MetadataRequest": self._metadata,
            "ListOffsetsRequest": self._list_offsets,
            "OffsetForLeaderEpochRequest": self._end_of_epoch,
            "FetchRequest": self._fetch,
            "FindCoordinatorRequest": self._find_coordinator,
            "InitProducerIdRequest": self._init_producer_id,
        }
        return answer[name](request)

    def _metadata(self, request: Any) -> Any:
        of_topic, of_broker = MetadataResponse.MetadataResponseTopic, MetadataResponse.MetadataResponseBroker
        partition = of_topic.MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=self._broker.leader, leader_epoch=self._broker.epoch
        )
        topics = [
            of_topic(error_code=0, name=each.name, topic_id=TOPIC_ID, partitions=[partition])
            for each in request.topics or ()
        ]
        brokers = [of_broker(node_id=node, host=self._brokers.host, port=node) for node in self._brokers.brokers]
        return MetadataResponse(brokers=brokers, topics=topics, cluster_id="c", controller_id=1)

    def _list_offsets(self, request: Any) -> Any:
        of_topic = ListOffsetsResponse.ListOffsetsTopicResponse
        asked = request.topics[0].partitions[0]
        code, offset = self._refusal(asked), 0 if asked.timestamp == -2 else self._broker.end
        partition = of_topic.ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=offset)
        return ListOffsetsResponse(topics=[of_topic(name=request.topics[0].name, partitions=[partition])])

    def _refusal(self, asked: Any) -> int:
        """Return the error for a question to a leader of an epoch."""
        broker = self._broker
        if broker.leader != broker.node:
            return 6
        if asked.current_leader_epoch != broker.epoch:
            return 74 if asked.current_leader_epoch < broker.epoch else 75
        return 0

    def _end_of_epoch(self, request: Any) -> Any:
        """Answer as Kafka's LeaderEpochFileCache does."""
        of_topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        asked, begins = request.topics[0].partitions[0], self._broker.begins
        later = [begin for epoch, begin in sorted(begins.items()) if epoch > asked.leader_epoch]
        end = self._broker.end if asked.leader_epoch == max(begins) else later[0] if later else -1
        partition = of_topic.EpochEndOffset(
            error_code=self._refusal(asked), partition=0, leader_epoch=asked.leader_epoch, end_offset=end
        )
        return OffsetForLeaderEpochResponse(topics=[of_topic(topic=request.topics[0].topic, partitions=[partition])])

    def _fetch(self, request: Any) -> Any:
        of_topic = FetchResponse.FetchableTopicResponse
        broker = self._broker
        code = 0 if broker.leader == broker.node else 6
        partition = of_topic.PartitionData(
            partition_index=0, error_code=code, high_watermark=broker.end, last_stable_offset=broker.end,
            log_start_offset=0, aborted_transactions=[], preferred_read_replica=-1, records=None, diverging_epoch=None,
        )  # fmt: skip
        named = request.topics[0]
        topic = of_topic(topic=named.topic, topic_id=named.topic_id, partitions=[partition])
        return FetchResponse(error_code=0, session_id=0, responses=[topic])

    def _find_coordinator(self, request: Any) -> Any:
        node = self._broker.coordinator
        code = 15 if node < 0 else 0
        of_key = FindCoordinatorResponse.Coordinator
        keys = [
            of_key(key=key, node_id=node, host=self._brokers.host, port=node, error_code=code)
            for key in request.coordinator_keys or ()
        ]
        return FindCoordinatorResponse(
            error_code=code, node_id=node, host=self._brokers.host, port=node, coordinators=keys
        )

    def _init_producer_id(self, request: Any) -> Any:
        code = 0 if self._broker.coordinator == self._broker.node else 16
        return InitProducerIdResponse(error_code=code, producer_id=1, producer_epoch=0)
