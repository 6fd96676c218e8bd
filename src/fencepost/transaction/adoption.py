"""Takes over a group that another program has processed exactly once with its own producers (E20).

That program's transactions may still continue: a process that was only paused wakes up inside its transaction. So every
producer that it committed with is fenced, whatever its state, before the group's offsets are relied on:

1. Check that the group has no members.
2. Fence the producers that have contributed offsets to it, and those whose id the user attributes to the program. This
   aborts open transactions.
3. Read the group's offsets once no open transaction may change them.
4. Check that the group still has no members.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from fencepost.api.errors import ConnectError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import ASK_S, KafkaAuthorizationError, KafkaUnavailableError, retry
from fencepost.kafka.group.contributors import Contributor, foreign_length
from fencepost.kafka.group.group_admin import Group, GroupMember, ListedGroup, remove_members
from fencepost.kafka.group.group_offsets import Committed
from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.group.subscription import CLASSIC
from fencepost.kafka.group.transactions import Transaction
from fencepost.record import TopicPartition
from fencepost.transaction.input_fence import InputFence

_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_QUIET = ("Empty", "Dead")
_TURNS = 5
_SHOWN = 3


class AdoptionError(ConnectError):
    """The group cannot be taken over in its present state. The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class InputPartition:
    """A partition that the group reads.

    Attributes:
        committed: the committed offset; None if nothing was committed, or if an open transaction may change it.
        is_pending: whether such a transaction is open.
        end: the end offset of the partition.
        member: the client id of the member that owns it.
        by: the transactional id that last added its offset to a transaction.
    """

    place: TopicPartition
    committed: int | None
    is_pending: bool
    end: int | None
    member: str | None
    by: str | None


@dataclass(frozen=True, slots=True)
class Holder:
    """A producer of the group's program: its transactional id, as the coordinator reports it, and its input.

    Attributes:
        places: the partitions that it has contributed offsets of, or that its name points to.
        is_pending: whether its open transaction has such offsets.
        is_guessed: whether only its name, which is like those of contributors, suggests that it is the program's.
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
    """The present state of a group, as far as the principal sees it.

    Attributes:
        kind: with `state`, in Kafka's words.
        holders: the producers to fence, sorted by id.
        nameless: producer ids with pending offsets whose transactional ids cannot be seen.
        blind: why the log of the group's offsets was not read; None if it was.
    """

    group: str
    kind: str
    state: str
    members: tuple[GroupMember, ...]
    inputs: tuple[InputPartition, ...]
    holders: tuple[Holder, ...]
    nameless: tuple[int, ...] = ()
    blind: str | None = None

    @property
    def is_in_use(self) -> bool:
        return bool(self.members) or self.state not in _QUIET

    @property
    def guessed(self) -> tuple[str, ...]:
        """Return the transactional ids that the user must attribute to this program or to another."""
        return tuple(each.transaction.transactional_id for each in self.holders if each.is_guessed)


class Adoption:
    """Takes over one group of one cluster, as the principal of `conf`. A context manager, for one thread.

    Every method raises KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError or AdoptionError.
    """

    def __init__(
        self, conf: Mapping[str, Any], group: str, prefixes: Collection[str] = (), foreign: Collection[str] = ()
    ) -> None:
        """`conf` is a producer's, with librdkafka's names. `prefixes`: prefixes of the program's transactional ids, in
        addition to the ids that the log names. `foreign`: prefixes of similar ids that belong to other programs."""
        self._conf, self._group, self._prefixes, self._foreign = conf, group, tuple(prefixes), tuple(foreign)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        opened = self._stack
        self._admin = Admin(self._conf)
        self._survey = GroupSurvey(self._conf, timeout_s=ASK_S)
        self._fence = InputFence(self._conf, foreign=self._foreign)
        for each in (self._admin, self._survey, self._fence):
            opened.callback(each.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def look(self) -> GroupView:
        """Return the state of the group without changing anything. Raises AdoptionError if the group does not exist."""
        described = self._admin.groups.describe(self._group)
        last, contributors, blind = self._contributions()
        places = {place for each in contributors for place in each.offsets}
        group_offsets = retry(lambda: self._survey.committed(self._group, places))
        listed = self._listed(group_offsets)
        if listed is None and not group_offsets:
            raise AdoptionError(
                f"There is no group {self._group} that this principal may see: use the program's group.id "
                "(for Kafka Streams: application.id)"
            )
        transactions = self._transactions(contributors)
        kind, state = (CLASSIC, described.state) if listed is None else (listed.kind, listed.state)
        return GroupView(
            self._group,
            kind,
            state,
            described.members,
            self._inputs(group_offsets, described, last),
            tuple(self._holder(transactions[id_], contributors) for id_ in sorted(transactions)),
            tuple(each.producer_id for each in contributors if each.is_pending and each.transactional_id is None),
            blind,
        )

    def take_over(
        self, view: GroupView, timeout_s: float, *, removes_members: bool = False
    ) -> dict[TopicPartition, Committed]:
        """Fence the producers of the view and any new ones. Returns the group's offsets, now without members.

        With `removes_members`, its members are removed first. That only works for processes that are gone or paused;
        others join again. Raises ReadTimeoutError if a transaction of a nameless producer stays open.
        """
        deadline_s = time.monotonic() + timeout_s
        self.ensure_free(view, removes_members=removes_members)
        self.ensure_attributed(view)
        if view.members:
            remove_members(self._conf, self._group, [each.member_id for each in view.members], ASK_S)
        fenced: set[tuple[str, int, int]] = set()
        for _ in range(_TURNS):
            due = [holder for holder in view.holders if _incarnation(holder.transaction) not in fenced]
            if not due:
                break
            self._fence.fence([_contributor(holder) for holder in due])
            view = self.look()
            self.ensure_attributed(view)
            fenced |= {_incarnation(holder.transaction) for holder in view.holders if not holder.is_open}
        else:
            raise AdoptionError(f"Producers of group {self._group} keep coming back: end the program first")
        places = [each.place for each in view.inputs]
        group_offsets = read_stable(self._conf, self._group, max(deadline_s - time.monotonic(), 1.0), places)
        self._ensure_still_empty(group_offsets)
        return group_offsets

    def _listed(self, group_offsets: Mapping[TopicPartition, Committed | None]) -> ListedGroup | None:
        """Return the group as brokers list it; None if it does not exist.

        A group with committed offsets is listed, except while its coordinator moves. Only the list shows that a group
        is not classic; `describe` would report such a group as without members.
        """
        has_offsets = any(group_offsets.values())

        def ask() -> ListedGroup | None:
            found = self._admin.groups.listed(self._group)
            if found is None and has_offsets:
                raise KafkaUnavailableError(f"No broker lists group {self._group}, whose coordinator may be moving")
            return found

        return retry(ask)

    def ensure_free(self, view: GroupView, *, removes_members: bool) -> None:
        """Raise AdoptionError if the group has members that would stay."""
        if not view.is_in_use:
            return
        if view.kind != CLASSIC:
            raise AdoptionError(
                f"Group {self._group} is a {view.kind} group with members: end the program; its members are gone at "
                "the latest after the group's session time-out"
            )
        if not removes_members:
            raise AdoptionError(
                f"Group {self._group} has {_counted(view.members)}. End the program; or, if its processes are gone or "
                "hang, remove the members with --remove-members"
            )

    def ensure_attributed(self, view: GroupView) -> None:
        """Raise AdoptionError if a transactional id is attributed neither to this program nor to another."""
        if view.guessed:
            raise AdoptionError(
                f"{_some(view.guessed)}: named like the producers of group {self._group}, but it is not known whose "
                "they are. Give a prefix of their ids: --prefix if they are the program's, to fence them; --foreign if "
                "they are another program's, to leave them alone"
            )

    def _ensure_still_empty(self, group_offsets: Mapping[TopicPartition, Committed | None]) -> None:
        listed, described = self._listed(group_offsets), self._admin.groups.describe(self._group)
        if described.members or (listed is not None and listed.state not in _QUIET):
            raise AdoptionError(
                f"Group {self._group} has {_counted(described.members)} again. The program is running: end it, and "
                "repeat this; fenced producers have lost nothing that was committed"
            )

    def _contributions(self) -> tuple[dict[TopicPartition, Contributor], list[Contributor], str | None]:
        """Return the last contributor of each partition, all contributors to fence, and why the log was not read.

        The log may stay unread only if ids are given by prefix. Fencepost's own tasks are left out unless they have a
        transaction open: they fence each other by their ids.
        """
        asked = self._fence.contributors
        try:
            last = asked.last(self._group)
            found = [
                *asked.holders(self._group, last),
                *asked.pending(self._group),
                *last.values(),
            ]  # the last entry for a producer wins
        except KafkaAuthorizationError as error:
            if not self._prefixes:
                raise AdoptionError(
                    f"{error}. Without it the producers of group {self._group} are unknown: grant it, or name their "
                    "transactional ids with --prefix"
                ) from error
            return {}, [], str(error)
        by_producer = {each.producer_id: each for each in found if each.is_pending or not each.is_ours}
        return last, list(by_producer.values()), None

    def _inputs(
        self,
        group_offsets: Mapping[TopicPartition, Committed | None],
        group: Group,
        last: Mapping[TopicPartition, Contributor],
    ) -> tuple[InputPartition, ...]:
        having = {
            TopicPartition(*place): member.client_id for member in group.members for place in member.topic_partitions
        }
        topics = self._admin.topics.get_all({place.topic for place in [*group_offsets, *having, *last]})
        places = [TopicPartition(name, number) for name in sorted(topics) for number in range(topics[name].partitions)]
        ends = self._admin.offsets.ends(places, read_committed=True)
        return tuple(
            InputPartition(
                place,
                getattr(group_offsets.get(place), "offset", None),
                place in group_offsets and group_offsets[place] is None,
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
        ids = {each.transactional_id for each in contributors if each.transactional_id is not None}
        if self._prefixes:
            listed = retry(self._admin.transactions.list)
            ids |= {each.transactional_id for each in listed if self._is_meant(each.transactional_id)}
        return retry(lambda: self._admin.transactions.describe(sorted(ids)))

    def _is_meant(self, transactional_id: str) -> bool:
        """Return whether the user attributes an id to the program. The longest matching prefix decides."""
        own = max((len(each) for each in self._prefixes if transactional_id.startswith(each)), default=0)
        return own > 0 and own >= foreign_length(transactional_id, self._foreign)


def _contributor(holder: Holder) -> Contributor:
    found = holder.transaction
    offsets = dict.fromkeys(holder.places, -1)
    return Contributor(
        found.producer_id, found.producer_epoch, offsets, found.transactional_id, is_pending=holder.is_pending
    )


def _incarnation(transaction: Transaction) -> tuple[str, int, int]:
    return transaction.transactional_id, transaction.producer_id, transaction.producer_epoch


def _some(names: Collection[str]) -> str:
    shown = sorted(names)
    return f"{', '.join(shown[:_SHOWN])}{', ...' if len(shown) > _SHOWN else ''}"


def _counted(members: Collection[GroupMember]) -> str:
    if not members:
        return "members"
    where = {f"{each.client_id} at {each.host.lstrip('/')}" for each in members}
    return f"{len(members)} members ({_some(where)})"
