"""The table with the sink's offsets: how far each partition is, and which task owns it.

A task claims its partitions by writing its fencing token, and reads their offsets in the same statement. A transaction
moves offsets only if each row still has the token and the offset that the task knows: a zombie's fails, whenever it
wakes up, and so does the repetition of a transaction that was committed after all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.api import FatalError, FencedError, FencingToken, TopicPartition
from fencepost.builtin.postgres.sink.table_name import TableName
from fencepost.postgres.name import literal

FENCED = "FP001"
"""The SQLSTATE with which a transaction fails whose task no longer owns a partition."""
_NOT_ALLOWED = "42501"
_MADE_MEANWHILE = ("23505", "42P07", "42710")  # another task has created the table in the same moment
_COLUMNS = """(
    sink text NOT NULL, topic text NOT NULL, partition integer NOT NULL, topic_id text NOT NULL,
    next_offset bigint, task_generation bigint NOT NULL, group_generation bigint NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (sink, topic, partition, topic_id))"""


class Log(NamedTuple):
    """A partition of a topic, and the topic's id: a topic that is created again is another one."""

    place: TopicPartition
    topic_id: str


class Move(NamedTuple):
    """The offset of a partition in the database, before and after a transaction."""

    log: Log
    before: int | None
    after: int


class OffsetTable:
    """The rows of one sink in the table of `offsets.table`."""

    def __init__(self, name: TableName, sink: str) -> None:
        self.name = name
        self._sink = sink

    def ensure(self, connection: Any) -> None:
        """Create the table if it is missing. Raises FatalError if the user may not."""
        if connection.execute("SELECT to_regclass(%s)", (self.name.sql,)).fetchone()[0] is not None:
            return
        try:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self.name.sql} {_COLUMNS}")
        except Exception as error:
            state = getattr(error, "sqlstate", None)
            if state in _MADE_MEANWHILE:
                return
            if state != _NOT_ALLOWED:
                raise
            columns = " ".join(_COLUMNS.split())
            raise FatalError(
                f"offsets.table={self.name} is missing, and the user may not create it. Let an administrator run: "
                f"CREATE TABLE {self.name.sql} {columns}; and grant the user SELECT, INSERT and UPDATE on it"
            ) from None

    def claim(self, connection: Any, logs: Sequence[Log], token: FencingToken) -> dict[Log, int | None]:
        """Own partitions from now on, and return their offsets; None for one without.

        Raises FencedError if a newer task owns one.
        """
        if not logs:
            return {}
        values = ", ".join(["(%s, %s, %s, %s, %s, %s)"] * len(logs))
        rows = [(self._sink, *log.place, log.topic_id, *token) for log in sorted(logs)]
        found = connection.execute(
            f"INSERT INTO {self.name.sql} AS o (sink, topic, partition, topic_id, task_generation, group_generation) "
            f"VALUES {values} ON CONFLICT (sink, topic, partition, topic_id) DO UPDATE SET "
            "task_generation = EXCLUDED.task_generation, group_generation = EXCLUDED.group_generation "
            "WHERE (o.task_generation, o.group_generation) <= (EXCLUDED.task_generation, EXCLUDED.group_generation) "
            "RETURNING topic, partition, topic_id, next_offset",
            [value for row in rows for value in row],
        ).fetchall()
        claimed = {Log(TopicPartition(topic, number), id_): offset for topic, number, id_, offset in found}
        lost = set(logs) - claimed.keys()
        if lost:
            raise FencedError(f"a newer task owns {', '.join(sorted(str(log.place) for log in lost))} by now")
        return claimed

    def move_sql(self, moves: Sequence[Move], token: FencingToken) -> str:
        """Return the statement that moves offsets, or fails with `FENCED`.

        It has no parameters, so that one message can carry it with the rest of the transaction.
        """
        values = ", ".join(
            f"({literal(m.log.place.topic)}, {m.log.place.partition}, {literal(m.log.topic_id)}, "
            f"{'NULL' if m.before is None else m.before}::bigint, {m.after}::bigint)"
            for m in sorted(moves, key=lambda move: move.log)
        )
        body = (
            f"DECLARE moved integer; BEGIN UPDATE {self.name.sql} o SET next_offset = m.after, written_at = now() "
            f"FROM (VALUES {values}) m(topic, partition, topic_id, before, after) "
            f"WHERE o.sink = {literal(self._sink)} AND o.topic = m.topic AND o.partition = m.partition "
            "AND o.topic_id = m.topic_id AND o.next_offset IS NOT DISTINCT FROM m.before "
            f"AND (o.task_generation, o.group_generation) = ({token.task_generation}, {token.group_generation}); "
            f"GET DIAGNOSTICS moved = ROW_COUNT; IF moved <> {len(moves)} THEN "
            f"RAISE EXCEPTION 'another task has written these partitions' USING ERRCODE = '{FENCED}'; END IF; END"
        )
        return f"DO {literal(body)}"

    def alter(self, connection: Any, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set the offsets of partitions that have one here; None: the group's offset counts at the next start."""
        with connection.transaction():
            for (topic, number), offset in sorted(offsets.items()):
                connection.execute(
                    f"UPDATE {self.name.sql} SET next_offset = %s WHERE sink = %s AND topic = %s AND partition = %s",
                    (offset, self._sink, topic, number),
                )
