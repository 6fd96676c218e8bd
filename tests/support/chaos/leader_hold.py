"""Holds the leader inside one of its transactions, so that it is lost exactly there."""

from collections.abc import Callable

from fencepost.kafka.group.transactions import Transaction
from fencepost.testing import eventually
from support.chaos import wire
from support.chaos.hold import Coordinator
from support.chaos.point import Moment, Phase, Point
from support.proxy import Action, ApiKey, KafkaProxy, Request, Rule

_ANY = 1 << 30
_HELD_S = 90.0


class LeaderHold:
    """Stops a leader at a point of the transaction that writes a record with `key`; nothing more of it gets through.

    Steps: `arm` ▸ (the write is asked for) ▸ `await_held` ▸ (the leader is lost) ▸ `let_through` for whoever comes next
    through the same proxy ▸ `release` or `discard` what is withheld.
    """

    def __init__(self, proxy: KafkaProxy, transactional_id: str, key: bytes, point: Point) -> None:
        self._proxy = proxy
        self._ids = (transactional_id,)
        self._key = key
        self._point = point
        self._rules: list[Rule] = []

    def arm(self) -> None:
        if self._point.phase is Phase.PRODUCE:
            self._chosen = self._on(ApiKey.PRODUCE, self._action, 1, self._is_write)
        else:
            written = self._on(ApiKey.PRODUCE, Action.PASS, 1, self._is_write)
            self._chosen = self._on(*self._later(written))
        self._behind = self._on(None, Action.HOLD, _ANY, self._comes_behind)

    @property
    def _action(self) -> Action:
        return Action.HOLD if self._point.moment is Moment.BEFORE else Action.HOLD_ANSWER

    def _later(self, written: Rule) -> tuple[ApiKey, Action, int, Callable[[Request], bool]]:
        if self._point.phase is Phase.OFFSETS:
            is_own = wire.of(self._ids)
            return ApiKey.TXN_OFFSET_COMMIT, self._action, 1, lambda r: written.met > 0 and is_own(r)
        return ApiKey.END_TXN, self._action, 1, lambda r: written.met > 0 and wire.is_commit(r, self._ids)

    def _is_write(self, request: Request) -> bool:
        return wire.owner(request, self._ids) is not None and self._key in request.frame

    def _comes_behind(self, request: Request) -> bool:
        return self._chosen.met > 0 and wire.owner(request, self._ids) is not None

    def _on(self, *what: object) -> Rule:
        rule = self._proxy.on(*what)  # type: ignore[arg-type]
        self._rules.append(rule)
        return rule

    def await_held(self, coordinator: Coordinator) -> Transaction:
        """Wait until the leader is at its point, and the broker says so. Raises AssertionError."""
        self._chosen.await_met(within_s=_HELD_S)
        if self._point.moment is Moment.DURING:
            self._chosen.await_answered(within_s=_HELD_S)
        states = self._states

        def described() -> Transaction:
            found = coordinator.describe(self._ids)[self._ids[0]]
            assert found.state in states, f"{self._key!r}, {self._point}: {found}"
            return found

        return eventually(described, within_s=_HELD_S, every_s=0.01)

    @property
    def _states(self) -> frozenset[str]:
        """The broker's own markers are not withheld: a commit that was delivered comes about."""
        return frozenset({"CompleteCommit"}) if self._point.withholds_markers else frozenset({"Ongoing"})

    def let_through(self) -> None:
        self._proxy.forget(*self._rules)

    def release(self) -> int | None:
        """Deliver what was withheld. Returns the broker's error code for the chosen request, where it was withheld."""
        self._chosen.release()
        self._behind.release()
        if self._point.moment is Moment.DURING:
            return None
        return wire.error_of(self._chosen.requests[0], self._chosen.answers[0])

    def discard(self) -> None:
        """Lose what was withheld."""
        self._chosen.discard()
        self._behind.discard()
