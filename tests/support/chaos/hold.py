"""Holds a task at a point of a transaction, so that a fault hits exactly there."""

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from fencepost.kafka.group.transactions import Transaction, TransactionAdmin
from fencepost.kafka.setting.table import BATCH, LIBRDKAFKA
from fencepost.testing import eventually
from support.chaos import wire
from support.chaos.load import Load
from support.chaos.point import Moment, Phase, Point, TaskKind
from support.proxy import Action, ApiKey, KafkaProxy, Matches, Request, Rule

_ANY = 1 << 30
_HELD_S = 120.0  # a limit for the busiest of machines; how long a recovery takes is looked at elsewhere


@dataclass(frozen=True)
class Target:
    """A task, or the splits of one: whose requests to hold, and the line of progress that shows its recovery."""

    load: Load
    task_kind: TaskKind
    line: Hashable
    transactional_ids: tuple[str, ...]  # of all its lanes
    offsets_topic: str
    client: str = LIBRDKAFKA

    def __str__(self) -> str:
        return self.transactional_ids[0]


class Coordinator:
    """Asks the broker about transactional ids, through one connection. Thread-safe."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = TransactionAdmin({"bootstrap.servers": bootstrap})
        self._lock = threading.Lock()

    def describe(self, transactional_ids: Sequence[str]) -> dict[str, Transaction]:
        with self._lock:
            return self._admin.describe(transactional_ids)

    def close(self) -> None:
        self._admin.close()


class Hold:
    """Stops one target at one point: from the chosen request on, nothing more of it gets through.

    Steps: `arm` ▸ `await_held` (▸ `prepare`) ▸ `confirm` ▸ (the fault) ▸ `let_through` for whoever comes next ▸ at last
    `release` or `discard` what is withheld.
    """

    def __init__(
        self,
        proxy: KafkaProxy,
        coordinator: Coordinator,
        target: Target,
        point: Point,
        is_bystander: Matches,
    ) -> None:
        """`is_bystander`: whose requests are let through although they are made under the target's ids."""
        self.target = target
        self.point = point
        self.described: Transaction | None = None
        self._proxy = proxy
        self._coordinator = coordinator
        self._is_bystander = is_bystander
        self._before: dict[str, Transaction] = {}
        self._rules: list[Rule] = []

    def arm(self) -> None:
        self._before = self._coordinator.describe(self.target.transactional_ids)
        ids = self.target.transactional_ids
        if self.point.phase is Phase.INIT and self.target.task_kind is TaskKind.SLOT:
            # A strike (E5), or a loss, makes the task replace its producer.
            self._on(self._beginning, Action.RESET, 1, wire.of(ids))
        self._chosen = self._on_chosen()
        self._behind = self._on(None, Action.HOLD, _ANY, self._comes_behind)

    def _on_chosen(self) -> Rule:
        ids, topic = self.target.transactional_ids, self.target.load.topic
        action = self._action()
        if self.point.phase is Phase.INIT:
            producers = (
                ids if self.target.task_kind is TaskKind.SLOT else ids[:1]
            )  # a split's second id has no producer
            return self._on(ApiKey.INIT_PRODUCER_ID, action, 1, lambda r: wire.inits_producer(r, producers))
        if self.point.phase is Phase.COMMIT:
            return self._on(ApiKey.END_TXN, action, 1, lambda request: wire.is_commit(request, ids))
        if self.point.phase is Phase.OFFSETS:
            return self._on(ApiKey.PRODUCE, action, 1, wire.of(ids, self.target.offsets_topic))
        is_produce = wire.of(ids, topic)
        if self.target.client == BATCH:
            return self._on(ApiKey.PRODUCE, action, 1, is_produce)
        added = self._on(ApiKey.ADD_PARTITIONS_TO_TXN, Action.PASS, 1, wire.of(ids, topic))
        return self._on(ApiKey.PRODUCE, action, 1, lambda request: added.met > 0 and is_produce(request))

    @property
    def _beginning(self) -> ApiKey:
        """The request by which the coordinator hears of a transaction first."""
        return ApiKey.PRODUCE if self.target.client == BATCH else ApiKey.ADD_PARTITIONS_TO_TXN

    def _action(self) -> Action:
        if self.point.moment is Moment.BEFORE or self.point.withholds_markers:
            return Action.HOLD
        if self.point.moment is Moment.DURING or self._is_last_request:
            return Action.HOLD_ANSWER
        return Action.PASS

    @property
    def _is_last_request(self) -> bool:
        """A split's writer sends nothing after its commit; "after" is then: done, and only the broker knows."""
        return self.target.task_kind is TaskKind.SPLIT and self.point.phase is Phase.COMMIT

    def _comes_behind(self, request: Request) -> bool:
        return self._chosen.met > 0 and wire.owner(request, self.target.transactional_ids) is not None

    def _on(self, api_key: int | None, action: Action, count: int, matches: Matches) -> Rule:
        rule = self._proxy.on(api_key, action, count, lambda r: matches(r) and not self._is_bystander(r))
        self._rules.append(rule)
        return rule

    def await_held(self) -> None:
        """Wait until the target is at its point; a commit that is to stay prepared is not delivered yet."""
        try:
            self._await_held()
        except AssertionError as error:
            raise AssertionError(f"{self.target} did not get to {self.point}: {error}") from None

    def _await_held(self) -> None:
        self._chosen.await_met(within_s=_HELD_S)
        if self.point.moment is not Moment.BEFORE and not self.point.withholds_markers:
            self._chosen.await_answered(within_s=_HELD_S)
        if self.point.moment is Moment.AFTER and not self._is_last_request:
            self._behind.await_met(within_s=_HELD_S)
        if self.target.task_kind is TaskKind.SPLIT and self.point.moment is Moment.BEFORE:
            # Until now the worker may have taken the id itself, to forget finished files; it is let through.
            self._before = self._coordinator.describe(self.target.transactional_ids)

    def prepare(self) -> None:
        """Deliver the commit; markers must be withheld by now."""
        self._chosen.deliver()
        self._chosen.await_answered()

    @property
    def transactional_id(self) -> str:
        """The id, of those of the lanes, that the chosen request was made with."""
        found = wire.owner(self._chosen.requests[0], self.target.transactional_ids)
        assert found is not None
        return found

    @property
    def client_ports(self) -> list[int]:
        """Ports of the process to hit, the one whose request, or answer, is withheld first.

        Its connection may be gone: a producer that was replaced a moment ago may have asked for something at its end.
        """
        is_behind = self.point.moment is Moment.AFTER and not self._is_last_request
        requests = [*(self._behind.requests if is_behind else ()), *self._chosen.requests]
        return [request.client_port for request in requests]

    def confirm(self) -> Transaction:
        """Wait until the broker describes the transaction as the point implies. Raises AssertionError."""

        def described() -> Transaction:
            found = self._coordinator.describe([self.transactional_id])[self.transactional_id]
            assert found.state in self.point.states(self.target.client), f"{self.target}, {self.point}: {found}"
            expected = self.point.is_initialised(self.target.client)
            assert expected in (None, self._is_newer(found)), f"{self.target}, {self.point}: {found}"
            return found

        self.described = eventually(described, within_s=_HELD_S, every_s=0.01)
        return self.described

    def _is_newer(self, found: Transaction) -> bool:
        before = self._before.get(found.transactional_id)
        return before is None or (found.producer_id, found.producer_epoch) != (
            before.producer_id,
            before.producer_epoch,
        )

    def let_through(self) -> Rule:
        """Hold nothing more, and return a rule that is met by the successor's init."""
        self._proxy.forget(*self._rules)
        return self._proxy.on(ApiKey.INIT_PRODUCER_ID, Action.PASS, 1, wire.of(self.target.transactional_ids))

    def release(self) -> int | None:
        """Deliver what was withheld. Returns the broker's error code for the chosen request, where it was withheld."""
        self._chosen.release()
        self._behind.release()
        if self.point.moment is not Moment.BEFORE:
            return None
        return wire.error_of(self._chosen.requests[0], self._chosen.answers[0])

    def discard(self) -> None:
        """Lose what was withheld."""
        self._chosen.discard()
        self._behind.discard()
