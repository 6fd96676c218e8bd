"""The task: makes the slot and the plan, reads chunks, then streams, as the committed offsets say.

Each transaction of Kafka holds whole transactions of the database, or a part of a large one, or one chunk of the
snapshot, with the offsets that cover them. If the connection is lost within one, it is aborted, and read again.
"""

import logging
from collections.abc import Mapping

from fencepost.api import FatalError, Form, RetriableError, SourceTask
from fencepost.builtin.postgres.source.planning import Planning
from fencepost.builtin.postgres.source.progress import Offset, Offsets, Phase, Progress
from fencepost.builtin.postgres.source.reading import ChunkReading
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.builtin.postgres.source.streaming import Streaming
from fencepost.builtin.postgres.source.turn import Idle, Records, Stage, Turn
from fencepost.hook.written import WrittenContext
from fencepost.postgres.error import explain, is_retriable

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0


class PostgresSourceTask(SourceTask):
    """Moves a database's rows, then its changes. The stages are one after the other; each begins when it is due."""

    config: SourceSettings
    context: WrittenContext

    @classmethod
    def form(cls, config: SourceSettings) -> Form:
        return Form.COLUMNS

    def start(self) -> None:
        self._offsets: Offsets = {tuple(sorted(p.items())): o for p, o in self.context.offsets()}
        self._due: Offsets = {}  # to be committed, and not known to be
        self._offered: Offsets = {}  # in the commit that is being made
        self._is_open = False  # records were returned since the last end of a transaction
        self._pause_s = _FIRST_PAUSE_S
        self._stage: Stage = self._next_stage(None)

    def poll(self) -> Records:
        if self._stage.is_over and not self._due:
            self._stage = self._next_stage(self._stage)
        try:
            turn = self._stage.turn()
        except Exception as error:
            return self._failed(error)
        self._pause_s = _FIRST_PAUSE_S
        return self._given(turn)

    def update_offsets(self, offsets: Mapping[tuple[tuple[str, object], ...], Offset]) -> Offsets:
        self._offered = dict(self._due)
        return self._offered

    def commit(self) -> None:
        committed, self._offered = self._offered, {}
        for key, offset in committed.items():
            if offset is None:
                self._offsets.pop(key, None)
            else:
                self._offsets[key] = offset
            if self._due.get(key, ...) == offset:
                del self._due[key]
        if committed:
            self._stage.committed(committed)

    def stop(self) -> None:
        if hasattr(self, "_stage"):
            self._stage.close()

    def _given(self, turn: Turn) -> Records:
        self._is_open |= bool(turn.records is not None and len(turn.records))
        if turn.ends:
            self._is_open = False
            for partition, offset in turn.offsets.items():  # in this order, if they are written one by one
                self._due.pop(partition, None)
                self._due[partition] = offset
            if self.context.transaction is not None:
                self.context.transaction.commit_transaction()
            elif isinstance(self._stage, Planning) or any(len(each) > 1 for each in turn.offsets):
                # The next step waits for this one.
                self.context.request_commit()
        return turn.records

    def _failed(self, error: Exception) -> Records:
        """Drop what the open transaction has, and connect again later. Raises FatalError for what does not pass."""
        self._stage.reset()
        if isinstance(error, FatalError) or not (isinstance(error, RetriableError) or is_retriable(error)):
            raise error if isinstance(error, FatalError) else FatalError(explain(error)) from error
        log.warning("%s: the database is read again in %.1f s: %s", self.config.prefix, self._pause_s, explain(error))
        was_open, self._is_open = self._is_open, False
        if was_open and self.context.transaction is not None:
            self.context.transaction.abort_transaction()
            return None
        self.context.wait(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        raise RetriableError(explain(error)) from error

    def _next_stage(self, before: Stage | None) -> Stage:
        """Return the stage of the phase that the committed offsets say."""
        if before is not None and not isinstance(before, Planning):
            before.close()
        progress, own = self._progress(), self.config
        if progress.is_left_in_snapshot:
            raise FatalError(own.left_in_snapshot())
        if progress.phase is Phase.STREAM and not own.has_stream:
            log.info("%s: the snapshot is complete, and %s asks for no more", own.prefix, own.snapshot_mode)
            return Idle(self.context)
        if progress.phase is Phase.STREAM and own.part == 0:  # the others wait until the tasks are planned again
            return Streaming(own, self.context, self._progress)
        if progress.phase is Phase.CHUNKS:
            holder = before.take_holder() if isinstance(before, Planning) else None
            return ChunkReading(own, self.context, progress, holder)
        return Planning(own, self.context, progress)

    def _progress(self) -> Progress:
        return Progress.of(self.config.prefix, [(dict(key), o) for key, o in self._offsets.items() if o is not None])
