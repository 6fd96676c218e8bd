"""Offsets of the Postgres source: phases, the numbering of chunks, and positions that Debezium understands."""

import random

import pytest

from fencepost.builtin.postgres.source.progress import (
    Part,
    Phase,
    Plan,
    Position,
    Progress,
    Server,
    TablePlan,
    intent,
    position_offset,
    removal,
    table_offset,
)
from fencepost.testing import OffsetStore

SERVER = Server("7316", 1)
TABLES = (TablePlan(1, 1, "public.a", 11, 0, 100), TablePlan(2, 2, 'public."b c"', 12, 250, 100))
PLAN = Plan(0x16B3748, "740:744:741,742", "00000003-0000001B-1", SERVER, TABLES)


def progress(*written: dict) -> Progress:
    store = OffsetStore()
    for offsets in written:
        store.write([(dict(key), value) for key, value in offsets.items()])
    return Progress.of("shop", store.pairs())


def test_phase_follows_from_committed_offsets() -> None:
    made, plan = intent("shop", "slot"), PLAN.offsets("shop")
    read = [PLAN.part_offset("shop", Part(number, 2, 4)) for number in (0, 1)]
    position = position_offset("shop", Position(5))
    assert progress().phase is Phase.BEGIN
    assert progress(made).phase is Phase.SLOT
    assert progress(made, plan).phase is Phase.CHUNKS
    assert progress(made, plan, read[0]).phase is Phase.CHUNKS
    assert progress(made, plan, *read).phase is Phase.STREAM
    assert progress(made, plan, *read).start == Position(PLAN.lsn, server=SERVER)
    assert progress(made, position).phase is Phase.STREAM
    assert progress({(("server", "other"),): {"lsn": 1}}).phase is Phase.BEGIN


def test_plan_is_read_back_as_committed_and_all_of_it_is_removed() -> None:
    found = progress(intent("shop", "slot"), PLAN.offsets("shop"), PLAN.part_offset("shop", Part(0, 1, 2)))
    assert found.plan == PLAN
    assert found.parts == (Part(0, 1, 2),)
    assert progress(PLAN.offsets("shop"), removal(found)).phase is Phase.BEGIN


def test_plan_that_is_stored_in_part_counts_as_none() -> None:
    partial = dict(list(PLAN.offsets("shop").items())[:-1])
    assert progress(partial).phase is Phase.SLOT


def test_chunks_cover_each_block_once() -> None:
    chunks = [PLAN.chunk(number) for number in range(PLAN.chunks)]
    assert [(chunk.table.oid, chunk.first_page, chunk.end_page) for chunk in chunks] == [
        (1, 0, None),
        (2, 0, 100),
        (2, 100, 200),
        (2, 200, None),
    ]
    with pytest.raises(IndexError):
        PLAN.chunk(PLAN.chunks)


def test_no_chunk_is_read_twice_when_the_number_of_tasks_changes() -> None:
    seed = random.randrange(1 << 32)
    print(f"{seed=}")
    drawn = random.Random(seed)
    plan = Plan(1, "1:1:", "", SERVER, (TablePlan(1, 1, "t", 1, 1000, 10),))
    store, read = OffsetStore([(dict(key), value) for key, value in plan.offsets("p").items()]), []
    while (now := Progress.of("p", store.pairs())).phase is Phase.CHUNKS:
        of = drawn.randint(1, 7)
        for part in range(of):
            for number in list(now.unread(part, of))[: drawn.randint(0, 5)]:
                read.append(number)
                offset = plan.part_offset("p", Part(part, of, number + 1))
                store.write([(dict(key), value) for key, value in offset.items()])
    assert sorted(read) == list(range(plan.chunks))


@pytest.mark.parametrize(
    ("offset", "position"),
    [
        ({"lsn": 30, "lsn_proc": 30, "lsn_commit": 20, "txId": 7, "ts_usec": 9}, Position(20, 7, 9, processed_lsn=30)),
        ({"lsn": 20, "lsn_proc": 20, "lsn_commit": 20, "messageType": "COMMIT"}, Position(20)),
        ({"lsn": 30, "lsn_proc": 30, "lsn_commit": 20, "txId": 7, "messageType": "BEGIN"}, Position(20, 7)),
        (  # with a record that a transaction has begun
            {"lsn": 30, "lsn_proc": 30, "lsn_commit": 20, "txId": 7, "messageType": "BEGIN", "transaction_id": "7:30"},
            Position(20, 7, processed_lsn=0),
        ),
        (  # transactions overlap in the log: one was committed after the change, and before its transaction
            {"lsn": 10, "lsn_proc": 10, "lsn_commit": 20, "txId": 7, "messageType": "INSERT"},
            Position(20, 7, processed_lsn=10),
        ),
        (  # a change may begin where the commit of another transaction ends
            {"lsn": 20, "lsn_proc": 20, "lsn_commit": 20, "txId": 7, "messageType": "UPDATE"},
            Position(20, 7, processed_lsn=20),
        ),
        (  # in the first transaction after the snapshot
            {"lsn": 30, "lsn_proc": 30, "txId": 7, "messageType": "INSERT", "lsn_events_processed": 4},
            Position(30, 7, processed_lsn=30, processed_count=4),
        ),
        (  # a message in a transaction does not move `lsn_proc`, nor is it counted
            {
                "lsn": 30,
                "lsn_proc": 25,
                "lsn_commit": 20,
                "txId": 7,
                "messageType": "MESSAGE",
                "lsn_events_processed": 4,
            },
            Position(20, 7, processed_lsn=30, processed_count=0),
        ),
        ({"lsn": 30, "lsn_proc": 30, "lsn_commit": 30, "messageType": "MESSAGE", "ts_usec": 9}, Position(30, None, 9)),
        ({"lsn": 20, "snapshot": "INITIAL", "last_snapshot_record": False}, None),
        ({"lsn": 20, "snapshot": True, "last_snapshot_record": True}, Position(20)),
        ({"lsn": 20, "incremental_snapshot_collections": '[{"incremental_snapshot_collections_id": "a.b"}]'}, None),
        (Position(9, 6, 7, 8, 4, SERVER).offset(), Position(9, 6, 7, 8, 4, SERVER)),
        (
            Position(20, 7, processed_lsn=30, processed_count=2).offset(),
            Position(20, 7, processed_lsn=30, processed_count=2),
        ),
        (Position(20, 7, processed_lsn=10).offset(), Position(20, 7, processed_lsn=10)),
        (Position(9, 6, 7, 8, 4, SERVER, 0).offset(), Position(9, 6, 7, 8, 4, SERVER, 0)),
        (
            Position(30, 7, processed_lsn=30, processed_count=4).offset(),
            Position(30, 7, processed_lsn=30, processed_count=4),
        ),
    ],
)
def test_position_is_that_of_an_offset_of_debezium_or_ours(offset: dict, position: Position | None) -> None:
    assert Position.of_offset(offset) == position


def test_offset_lets_debezium_take_all_that_follows() -> None:
    """With `lsn_proc`, it would look for a change at that LSN; it fails at nulls."""
    assert Position(20, server=SERVER).offset() == {"lsn": 20, "system_identifier": "7316", "timeline": 1}
    within = Position(20, 7, 9, 3, 30, SERVER, 2).offset()
    assert (within["lsn_commit"], within["lsn_proc"], within["lsn_events_processed"]) == (20, 30, 2)
    assert within["messageType"] == "INSERT"


def test_tables_that_were_read_are_unknown_once_debezium_has_continued() -> None:
    read, own = table_offset("shop", 7, "public.a"), position_offset("shop", Position(20, server=SERVER))
    assert progress(own, read).tables == {7}
    assert progress(own, read, {(("server", "shop"),): {"lsn": 30}}).tables == frozenset()
