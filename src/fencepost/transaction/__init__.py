"""The only code that writes data records in transactions. Keeps E1, E5, E6 and E8.

Core types: `TransactionalWriter`, its `WriterState` with one table of legal moves, and errors grouped by what the
caller must do.
"""

from fencepost.transaction.errors import (
    CommitUnknownError,
    ProduceError,
    StaleMemberError,
    WriterFencedError,
    WriterOpenError,
    is_refusal,
)
from fencepost.transaction.group_transactions import GroupTransactions
from fencepost.transaction.lane import ConfOf, fence, lane_ids, lock_out, open_lanes
from fencepost.transaction.writer import TransactionalWriter, WriterState, WriterTimeouts, produce_error

__all__ = [
    "CommitUnknownError",
    "ConfOf",
    "GroupTransactions",
    "ProduceError",
    "StaleMemberError",
    "TransactionalWriter",
    "WriterFencedError",
    "WriterOpenError",
    "WriterState",
    "WriterTimeouts",
    "fence",
    "is_refusal",
    "lane_ids",
    "lock_out",
    "open_lanes",
    "produce_error",
]
