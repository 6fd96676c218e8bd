"""The broker's half of the older transaction protocol: coordinators, a data partition, and where positions are kept.

Everything is a small tuple, and every function returns a new one. What is left out: leader changes, time-outs of
transactions (a late `INIT` does the same), and what a client does to find the broker.
"""

from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """Requests of a transactional producer."""

    INIT = "InitProducerId"
    ADD_DATA = "AddPartitionsToTxn(data)"
    ADD_BOTH = "AddPartitionsToTxn(data, offsets)"
    FIRST = "Produce(first record)"
    SECOND = "Produce(second record)"
    ADD_GROUP = "AddOffsetsToTxn"
    POSITION = "position"  # Produce to the offsets topic, or TxnOffsetCommit
    COMMIT = "EndTxn(commit)"
    ABORT = "EndTxn(abort)"
    PLAIN_POSITION = "position, in no transaction"


class Request(NamedTuple):
    """`transaction` is the client's business, and what tells answers apart: a coordinator does not look at it."""

    kind: Kind
    lane: int
    epoch: Any  # of an INIT, which has none yet: the start of the task that sent it
    transaction: int
    generation: int = 0  # of the member that sends a position; 0: of no member

    def __str__(self) -> str:
        if self.kind is Kind.INIT:
            return f"{self.kind} of lane {self.lane}, task {self.epoch[0]}"
        return f"{self.kind} of lane {self.lane}, epoch {self.epoch}, transaction {self.transaction}"


class Status(StrEnum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


class Coordinator(NamedTuple):
    """What is known of one transactional id, and what partitions know of its producer."""

    epoch: int = 0
    status: Status = Status.EMPTY
    has_data: bool = False  # the data partition is part of the transaction
    has_position: bool = False
    last_record: int = -1  # stands for the sequence number: a repeated record is not appended twice
    last_position: int = 0


class Log(NamedTuple):
    """`visible`: the next record, or the position, for a read_committed reader; then what it does not see yet."""

    visible: int = 0
    tail: tuple[tuple[int, int], ...] = ()  # (lane, or COMMITTED when only something before it is open; value)


class Broker(NamedTuple):
    ids: tuple[Coordinator, ...]
    data: Log = Log()
    positions: Log = Log()
    generation: int = 0  # of the group, if it has a member


class Way(NamedTuple):
    """How a task works: where it keeps its position, and which transactions it gives up (aborts) by itself."""

    keeps_group_offsets: bool = False  # pending by producer id, instead of records of a topic
    given_up: frozenset[int] = frozenset()

    def next_record(self, record: int) -> int:
        """Return the first record from `record` on that must become visible."""
        while record // 2 in self.given_up:
            record += 2
        return record


class Anomaly(Exception):
    """A reader sees what exactly-once forbids."""


COMMITTED = -1
_ADDED = {Kind.ADD_DATA: (True, False), Kind.ADD_BOTH: (True, True), Kind.ADD_GROUP: (False, True)}
PREPARED = (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)


def handle(broker: Broker, request: Request, way: Way) -> tuple[Broker, bool] | None:
    """Return what the broker is afterwards and whether it did as asked; None: not now, the client asks again.

    Raises Anomaly.
    """
    known = broker.ids[request.lane]
    if request.kind is Kind.PLAIN_POSITION:
        return broker._replace(positions=Log(request.transaction + 1)), True
    if request.kind is Kind.INIT:
        return None if known.status in PREPARED else (_initialised(broker, request.lane, known, way), True)
    if request.epoch != known.epoch:
        return broker, False  # fenced
    if request.kind in (Kind.COMMIT, Kind.ABORT):
        return _ended(broker, request, known)
    if request.kind in _ADDED:
        return _added(broker, request, known)
    if request.kind is Kind.POSITION:
        return _position(broker, request, known, way)
    return _produced(broker, request, known)


def decided(broker: Broker, lane: int, way: Way) -> Broker:
    """Write the markers of a transaction whose end is prepared. Raises Anomaly."""
    known = broker.ids[lane]
    is_commit = known.status is Status.PREPARE_COMMIT
    status = Status.COMMITTED if is_commit else Status.ABORTED
    ids = _with(broker.ids, lane, known._replace(status=status, has_data=False, has_position=False))
    positions = broker.positions
    if way.keeps_group_offsets and is_commit:
        positions = _group_positions(positions, lane)
    else:
        positions = _settled_positions(positions, lane, is_commit)
    return broker._replace(ids=ids, data=_settled_data(broker.data, lane, is_commit, way), positions=positions)


def _initialised(broker: Broker, lane: int, known: Coordinator, way: Way) -> Broker:
    """The next epoch; an ongoing transaction is aborted before the answer is given."""
    return broker._replace(
        ids=_with(broker.ids, lane, Coordinator(known.epoch + 1)),
        data=_settled_data(broker.data, lane, False, way),
        positions=_settled_positions(broker.positions, lane, False),
    )


def _added(broker: Broker, request: Request, known: Coordinator) -> tuple[Broker, bool] | None:
    if known.status in PREPARED:
        return None
    has_data, has_position = _ADDED[request.kind]
    known = known._replace(
        status=Status.ONGOING,
        has_data=known.has_data or has_data,
        has_position=known.has_position or has_position,
    )
    return _keeping(broker, request.lane, known), True


def _ended(broker: Broker, request: Request, known: Coordinator) -> tuple[Broker, bool] | None:
    """The heart of the matter: an end with the current epoch ends whatever is ongoing."""
    is_commit = request.kind is Kind.COMMIT
    if known.status in PREPARED:
        return None
    if known.status is Status.ONGOING:
        status = Status.PREPARE_COMMIT if is_commit else Status.PREPARE_ABORT
        return _keeping(broker, request.lane, known._replace(status=status)), True
    return broker, known.status is (Status.COMMITTED if is_commit else Status.ABORTED)


def _produced(broker: Broker, request: Request, known: Coordinator) -> tuple[Broker, bool] | None:
    """A record is refused unless its partition is part of the transaction; that is asked for the first one only."""
    lane, record = request.lane, 2 * request.transaction + (request.kind is Kind.SECOND)
    if not _is_open(broker.data, lane) and not (known.has_data and known.status is Status.ONGOING):
        return broker, False
    if record <= known.last_record:
        return broker, True
    if request.kind is Kind.SECOND and known.last_record != record - 1:
        return None
    data = Log(broker.data.visible, (*broker.data.tail, (lane, record)))
    return broker._replace(ids=_with(broker.ids, lane, known._replace(last_record=record)), data=data), True


def _position(broker: Broker, request: Request, known: Coordinator, way: Way) -> tuple[Broker, bool] | None:
    lane, position = request.lane, request.transaction + 1
    if 0 < request.generation < broker.generation:
        return broker, False  # of a member whose generation is over
    if not _is_open(broker.positions, lane) and not (known.has_position and known.status is Status.ONGOING):
        return broker, False
    if not way.keeps_group_offsets and position <= known.last_position:
        return broker, True
    positions = Log(broker.positions.visible, (*broker.positions.tail, (lane, position)))
    ids = _with(broker.ids, lane, known._replace(last_position=position))
    return broker._replace(ids=ids, positions=positions), True


def _settled_data(log: Log, lane: int, is_commit: bool, way: Way) -> Log:
    """Records become visible in the order of the log, up to the first that is undecided."""
    visible, tail = log.visible, _marked(log.tail, lane, is_commit)
    while tail and tail[0][0] == COMMITTED:
        record = tail[0][1]
        if record != visible:
            what = "duplicated" if record < visible else "visible before its predecessor"
            raise Anomaly(f"record {record} is {what} ({visible})")
        visible, tail = way.next_record(visible + 1), tail[1:]
    return Log(visible, tail)


def _settled_positions(log: Log, lane: int, is_commit: bool) -> Log:
    position, tail = log.visible, _marked(log.tail, lane, is_commit)
    while tail and tail[0][0] == COMMITTED:
        if tail[0][1] < position:
            raise Anomaly(f"the position goes back from {position} to {tail[0][1]}")
        position, tail = tail[0][1], tail[1:]
    return Log(position, tail)


def _group_positions(log: Log, lane: int) -> Log:
    """A group keeps one pending offset for each producer: the last that came."""
    pending = [position for owner, position in log.tail if owner == lane]
    if pending and pending[-1] < max(pending):
        raise Anomaly(f"the position goes back from {max(pending)} to {pending[-1]}")
    return Log(pending[-1] if pending else log.visible, tuple(e for e in log.tail if e[0] != lane))


def _marked(tail: tuple[tuple[int, int], ...], lane: int, is_commit: bool) -> tuple[tuple[int, int], ...]:
    if is_commit:
        return tuple((COMMITTED, entry[1]) if entry[0] == lane else entry for entry in tail)
    return tuple(entry for entry in tail if entry[0] != lane)


def _is_open(log: Log, lane: int) -> bool:
    return any(entry[0] == lane for entry in log.tail)


def _keeping(broker: Broker, lane: int, known: Coordinator) -> Broker:
    return broker._replace(ids=_with(broker.ids, lane, known))


def _with(ids: tuple[Coordinator, ...], lane: int, known: Coordinator) -> tuple[Coordinator, ...]:
    return (*ids[:lane], known, *ids[lane + 1 :])
