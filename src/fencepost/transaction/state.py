"""The states of a `TransactionalWriter`, and the legal moves between them."""

from enum import Enum


class WriterState(Enum):
    """The state of a writer."""

    NEW = "new"
    OPEN = "open"
    IN_TRANSACTION = "in transaction"
    STRUCK = "struck"
    UNKNOWN = "unknown"
    FENCED = "fenced"
    CLOSED = "closed"


_S = WriterState

LEGAL_MOVES: dict[WriterState, frozenset[WriterState]] = {
    _S.NEW: frozenset({_S.OPEN, _S.FENCED, _S.CLOSED}),
    _S.OPEN: frozenset({_S.IN_TRANSACTION, _S.STRUCK, _S.FENCED, _S.CLOSED}),
    _S.IN_TRANSACTION: frozenset({_S.OPEN, _S.STRUCK, _S.UNKNOWN, _S.FENCED, _S.CLOSED}),
    _S.STRUCK: frozenset({_S.FENCED, _S.CLOSED}),  # E5: a struck handle never begins another transaction
    _S.UNKNOWN: frozenset({_S.CLOSED}),  # E6: neither a second commit nor an abort
    _S.FENCED: frozenset({_S.CLOSED}),
    _S.CLOSED: frozenset(),
}


class IllegalMoveError(RuntimeError):
    """The writer's state does not allow the call, which is a bug in the caller."""


def move(current: WriterState, target: WriterState) -> WriterState:
    """Return `target` if the move is legal. Raises IllegalMoveError."""
    if target not in LEGAL_MOVES[current]:
        raise IllegalMoveError(f"a transactional writer cannot go from '{current.value}' to '{target.value}'")
    return target
