"""Taking over a group that another program has processed exactly once, with producers of its own (E20).

What that program left may still be carried on: a process that was only paused wakes up within its transaction. So every
producer that it committed with is fenced, whatever it is doing, before anybody relies on where the group stands:

1. The group has no members.
2. Who has contributed offsets to it is fenced, and who goes by an id that somebody has said to be the program's; open
   transactions are aborted.
3. Where the group stands is read, once no transaction is about to change it.
4. The group has no members still.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from fencepost.api.errors import ConnectError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError
from fencepost.kafka.group.contributors import Contributor, foreign_length
from fencepost.kafka.group.group_admin import Group, GroupAdmin, GroupMember, ListedGroup
from fencepost.kafka.group.group_survey import CLASSIC, Committed, GroupSurvey
from fencepost.kafka.group.leave import remove_members
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.group.transactions import Transaction
from fencepost.kafka.patience import patiently
from fencepost.record import TopicPartition
from fencepost.transaction.input_fence import InputFence

_ASK_S, _AGAIN_S = 30.0, 0.1
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_QUIET = ("Empty", "Dead")
_TURNS = 5
_SHOWN = 3


class AdoptionError(ConnectError):
    """The group cannot be taken over as things are. The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Input:
    """A partition that the group reads.

    Attributes:
        committed: where it stands; None: nothing was committed, or a transaction is about to change it.
        is_pending: such a transaction is open.
        end: where the partition ends.
        member: the client id of who has it.
        by: the transactional id that put offsets of it into a transaction last.
    """

    place: TopicPartition
    committed: int | None
    is_pending: bool
    end: int | None
    member: str | None
    by: str | None


@dataclass(frozen=True, slots=True)
class Holder:
    """A producer of the group's program: its transactional id, as the coordinator has it, and its input so far.

    Attributes:
        places: partitions that it has contributed offsets of, or is meant for by its name.
        is_pending: its open transaction has such offsets.
        is_guessed: nothing but its name, like that of others that have, says that it is the program's.
    """

    transaction: Transaction
    places: frozenset[TopicPartition]
    is_pending: bool
    is_guessed: bool = False

    @property
    def is_open(self) -> bool:
        return self.transaction.state in _OPEN


@dataclass(frozen=True, slots=True)
class GroupView:
    """What is to be seen of a group.

    Attributes:
        kind: and `state`: in Kafka's words.
        holders: who is to be fenced, in the order of their ids.
        nameless: producers with offsets pending whose transactional ids cannot be seen.
        blind: why the log of the group's offsets was not read; None: it was.
    """

    group: str
    kind: str
    state: str
    members: tuple[GroupMember, ...]
    inputs: tuple[Input, ...]
    holders: tuple[Holder, ...]
    nameless: tuple[int, ...] = ()
    blind: str | None = None

    @property
    def is_in_use(self) -> bool:
        return bool(self.members) or self.state not in _QUIET

    @property
    def guessed(self) -> tuple[str, ...]:
        """Return the transactional ids of which somebody has to say whether they are the program's."""
        return tuple(each.transaction.transactional_id for each in self.holders if each.is_guessed)


class Adoption:
    """One group of one cluster, as the principal of `conf`. A context manager; one thread.

    Everything here raises KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError or AdoptionError.
    """

    def __init__(
        self, conf: Mapping[str, Any], group: str, prefixes: Collection[str] = (), foreign: Collection[str] = ()
    ) -> None:
        """`conf` is that of a producer, in librdkafka's names. `prefixes`: how transactional ids of the program begin,
        besides those that the log names; `foreign`: how those of others begin that are named like them."""
        self._conf, self._group, self._prefixes, self._foreign = conf, group, tuple(prefixes), tuple(foreign)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        opened = self._stack
        self._admin, self._groups = Admin(self._conf), GroupAdmin(self._conf, timeout_s=_ASK_S)
        self._survey = GroupSurvey(self._conf, timeout_s=_ASK_S)
        self._fence = InputFence(self._conf, timeout_s=_ASK_S, foreign=self._foreign)
        for each in (self._admin, self._groups, self._survey, self._fence):
            opened.callback(each.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def look(self) -> GroupView:
        """Return what there is, and change nothing. AdoptionError where there is no such group."""
        described = self._admin.group(self._group)
        last, contributors, blind = self._contributions()
        places = {place for each in contributors for place in each.offsets}
        standing = patiently(lambda: self._survey.committed(self._group, places), _ASK_S, _AGAIN_S)
        listed = self._listed(standing)
        if listed is None and not standing:
            raise AdoptionError(
                f"There is no group {self._group} that this principal may see: name it as the program's group.id "
                "(of Kafka Streams: application.id)"
            )
        transactions = self._transactions(contributors)
        kind, state = (CLASSIC, described.state) if listed is None else (listed.kind, listed.state)
        return GroupView(
            self._group,
            kind,
            state,
            described.members,
            self._inputs(standing, described, last),
            tuple(self._holder(transactions[id_], contributors) for id_ in sorted(transactions)),
            tuple(each.producer_id for each in contributors if each.is_pending and each.transactional_id is None),
            blind,
        )

    def take_over(
        self, view: GroupView, timeout_s: float, *, removes_members: bool = False
    ) -> dict[TopicPartition, Committed]:
        """Fence what the view shows, and what has come since; return where the group stands then, with no members.

        `removes_members`: those that it has are taken out first, which only a process that is gone or paused lets
        happen to it. Raises ReadTimeoutError where a transaction of a nameless producer stays open.
        """
        deadline_s = time.monotonic() + timeout_s
        self.ensure_free(view, removes_members=removes_members)
        self.ensure_told(view)
        if view.members:
            remove_members(self._conf, self._group, [each.member_id for each in view.members], _ASK_S)
        fenced: set[tuple[str, int, int | None]] = set()
        for _ in range(_TURNS):
            due = [holder for holder in view.holders if _incarnation(holder.transaction) not in fenced]
            if not due:
                break
            self._fence.fence([_contributor(holder) for holder in due])
            view = self.look()
            self.ensure_told(view)
            fenced |= {_incarnation(holder.transaction) for holder in view.holders if not holder.is_open}
        else:
            raise AdoptionError(f"Producers of group {self._group} come back over and over: end the program first")
        places = [each.place for each in view.inputs]
        standing = read_stable(self._conf, self._group, max(deadline_s - time.monotonic(), 1.0), places)
        self._ensure_still_empty(standing)
        return standing

    def _listed(self, standing: Mapping[TopicPartition, Committed | None]) -> ListedGroup | None:
        """Return the group as brokers list it; None: there is none.

        One with committed offsets is listed, except while its coordinator moves: only the list says that a group is of
        another kind than the classic one, whose members would not be seen.
        """
        has_offsets = any(standing.values())

        def ask() -> ListedGroup | None:
            found = self._groups.listed(self._group)
            if found is None and has_offsets:
                raise KafkaUnavailableError(f"No broker lists group {self._group}, whose coordinator may be moving")
            return found

        return patiently(ask, _ASK_S, _AGAIN_S)

    def ensure_free(self, view: GroupView, *, removes_members: bool) -> None:
        """Raise AdoptionError where the group has members that would stay."""
        if not view.is_in_use:
            return
        if view.kind != CLASSIC:
            raise AdoptionError(
                f"Group {self._group} has members, of the kind {view.kind}: end the program; its members are gone at "
                "the latest when the group's session time-out is over"
            )
        if not removes_members:
            raise AdoptionError(
                f"Group {self._group} has {_counted(view.members)}. End the program; or, where its processes are gone "
                "or hang, take the members out: --remove-members"
            )

    def ensure_told(self, view: GroupView) -> None:
        """Raise AdoptionError where nobody has said of a transactional id whether it is the program's."""
        if view.guessed:
            raise AdoptionError(
                f"{_some(view.guessed)}: named like the producers of group {self._group}, and nothing else tells whose "
                "they are. Say it by how they begin: --prefix, they are the program's and are fenced; --foreign, they "
                "are another program's and are left alone"
            )

    def _ensure_still_empty(self, standing: Mapping[TopicPartition, Committed | None]) -> None:
        listed, described = self._listed(standing), self._admin.group(self._group)
        if described.members or (listed is not None and listed.state not in _QUIET):
            raise AdoptionError(
                f"Group {self._group} has {_counted(described.members)} again. The program lives: end it, and do this "
                "anew; what was fenced has lost nothing that was committed"
            )

    def _contributions(self) -> tuple[dict[TopicPartition, Contributor], list[Contributor], str | None]:
        """Return who was the last to contribute to each partition, and all who are to be fenced.

        And why that cannot be told, where ids are known by their prefix. Tasks of our own are left out but for what is
        open: they fence each other, and by their names.
        """
        asked = self._fence.contributors
        try:
            last = asked.last(self._group)
            found = [
                *asked.holders(self._group, last),
                *asked.pending(self._group),
                *last.values(),
            ]  # the last tell most
        except KafkaAuthorizationError as error:
            if not self._prefixes:
                raise AdoptionError(
                    f"{error}. Without it nobody knows which producers group {self._group} had: grant it, or name "
                    "their transactional ids (--prefix)"
                ) from error
            return {}, [], str(error)
        by_producer = {each.producer_id: each for each in found if each.is_pending or not each.is_ours}
        return last, list(by_producer.values()), None

    def _inputs(
        self,
        standing: Mapping[TopicPartition, Committed | None],
        group: Group,
        last: Mapping[TopicPartition, Contributor],
    ) -> tuple[Input, ...]:
        having = {
            TopicPartition(*place): member.client_id for member in group.members for place in member.topic_partitions
        }
        topics = self._admin.topics({place.topic for place in [*standing, *having, *last]})
        places = [TopicPartition(name, number) for name in sorted(topics) for number in range(topics[name].partitions)]
        ends = self._admin.end_offsets(places, read_committed=True)
        return tuple(
            Input(
                place,
                getattr(standing.get(place), "offset", None),
                place in standing and standing[place] is None,
                ends.get(place),
                having.get(place),
                last[place].transactional_id if place in last else None,
            )
            for place in places
        )

    def _holder(self, transaction: Transaction, contributors: Iterable[Contributor]) -> Holder:
        mine = [each for each in contributors if each.transactional_id == transaction.transactional_id]
        places = frozenset(place for each in mine for place in each.offsets)
        is_guessed = not self._is_meant(transaction.transactional_id) and all(each.is_guessed for each in mine)
        return Holder(transaction, places, any(each.is_pending for each in mine), is_guessed)

    def _transactions(self, contributors: Iterable[Contributor]) -> dict[str, Transaction]:
        """Return what coordinators know of those, and of the ids that begin as the user says."""
        ids = {each.transactional_id for each in contributors if each.transactional_id is not None}
        if self._prefixes:
            listed = (each.transactional_id for each in self._admin.transactions())
            ids |= {id_ for id_ in listed if self._is_meant(id_)}
        return self._admin.describe_transactions(sorted(ids)) if ids else {}

    def _is_meant(self, transactional_id: str) -> bool:
        """Say whether the user says that an id is the program's: the longest beginning counts of all that are said."""
        own = max((len(each) for each in self._prefixes if transactional_id.startswith(each)), default=0)
        return own > 0 and own >= foreign_length(transactional_id, self._foreign)


def _contributor(holder: Holder) -> Contributor:
    found = holder.transaction
    epoch = -1 if found.producer_epoch is None else found.producer_epoch
    offsets = dict.fromkeys(holder.places, -1)
    return Contributor(found.producer_id, epoch, offsets, found.transactional_id, is_pending=holder.is_pending)


def _incarnation(transaction: Transaction) -> tuple[str, int, int | None]:
    return transaction.transactional_id, transaction.producer_id, transaction.producer_epoch


def _some(names: Collection[str]) -> str:
    shown = sorted(names)
    return f"{', '.join(shown[:_SHOWN])}{', ...' if len(shown) > _SHOWN else ''}"


def _counted(members: Collection[GroupMember]) -> str:
    if not members:
        return "members"
    where = {f"{each.client_id} at {each.host.lstrip('/')}" for each in members}
    return f"{len(members)} members ({_some(where)})"
