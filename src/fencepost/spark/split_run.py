"""One run of one split, as the worker describes it over the channel: the `PartitionRun` of the runtime."""

from collections.abc import Mapping
from typing import Any

import orjson

from fencepost.spark.partition import OffsetRecords, Position, Written
from fencepost.task.copies import OffsetCopier
from fencepost.task.splits import SplitClient, split_client


class ChannelRun:
    """Asks the worker for all that it has to know; keeps what the run is made of."""

    def __init__(self, client: SplitClient) -> None:
        self._client = client
        self._spec = client.spec()
        self._copier = OffsetCopier(client.copy, self._spec.run) if self._spec.copies_offsets else None

    @property
    def topic(self) -> str | None:
        """None where each row names its own."""
        return self._spec.topic or None

    @property
    def producer_conf(self) -> Mapping[str, Any]:
        return self._spec.producer_conf

    @property
    def transactional_id(self) -> str | None:
        return self._spec.transactional_id

    @property
    def offsets_topic(self) -> str:
        return self._spec.offsets_topic

    @property
    def copier(self) -> OffsetCopier | None:
        return self._copier

    @property
    def rows_per_commit(self) -> int:
        return self._spec.rows_per_commit

    def admit(self) -> Position | None:
        return self._client.admit().position

    def is_unchanged(self) -> bool:
        return self._client.is_unchanged()

    def offset_records(self, position: Position) -> OffsetRecords:
        """The split's position; with the last one, tombstones for the offsets that are to be forgotten."""
        own = (self._spec.offset_key, orjson.dumps({**self._spec.offset_extra, **position}))
        forgotten = [(key, None) for key in self._spec.forget] if position.get("done") else []
        return [own, *forgotten]

    def report(self, written: Written) -> None:
        self._client.report(written.rows, skipped=written.skipped)


def split_run(channel_url: str, run: str) -> ChannelRun:
    """Return the run `run` of the worker at `channel_url`. Raises ChannelError."""
    return ChannelRun(split_client(channel_url, run))
