"""The files in which Spark keeps a query's progress, as the driver's machine sees them."""

import hashlib
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fencepost.api import FatalError, RetriableError
from fencepost.config import ConfigError
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.spark.write.folder import Folder

log = logging.getLogger(__name__)

_DIGEST_CHARACTERS = 32
_OWNER = "fencepost-owner"
DECIDED = "fencepost-decisions"
HEADER_LINES = 2  # the version and the metadata; then comes a line for each source, "-" for one without new offsets


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint location. Methods raise ConfigError for a missing file, RetriableError if it cannot be read now."""

    folder: Folder

    def query_id(self) -> str:
        """Return the id of the query, which Spark writes before its first micro-batch."""
        return str(json.loads(self._text("metadata"))["id"])

    def digest(self, batch: int) -> str:
        """Return a digest of the offsets of a micro-batch.

        Spark writes them before it runs the micro-batch, and a micro-batch that is run again has the same.
        """
        return hashlib.sha256(self._text(f"offsets/{batch}").encode()).hexdigest()[:_DIGEST_CHARACTERS]

    def group_offsets(self, batch: int) -> list[GroupOffset]:
        """Return where a micro-batch ends in the topics that the query reads, with this data source or Spark's.

        A partition that the query reads twice has the lower offset. Raises ConfigError if it reads no topic.
        """
        found: dict[TopicPartition, int] = {}
        for line in self._text(f"offsets/{batch}").splitlines()[HEADER_LINES:]:
            for place, offset in _offsets(line):
                found[place] = min(offset, found.get(place, offset))
        if not found:
            raise ConfigError("option commit.group: the query reads no Kafka topic whose offsets could be committed")
        return [GroupOffset(*place, offset) for place, offset in sorted(found.items())]

    def claim(self, owner: str) -> None:
        """Record who writes by this checkpoint, in a file of it. Raises FatalError if it is somebody else's.

        Two queries with one checkpoint would stop each other without end, and each batch would reach only one output.
        """
        found = self.folder.text(_OWNER) if self.folder.has(_OWNER) else None
        if found is None:
            self.folder.create()
            with self.folder.writable(_OWNER) as file:
                file.write(owner.encode())
            found = self.folder.text(_OWNER)
        if found != owner:
            raise FatalError(
                f"checkpoint.location: {self.folder.location} is the checkpoint of {found}, and a checkpoint is of one "
                f"connector only: set another one, or remove its file {_OWNER} if that connector is gone"
            )

    def ensure_shared(self) -> None:
        """Raise ConfigError on an executor that keeps state in a folder of its machine, and not in the driver's."""
        folder = self.folder
        if folder.is_local and folder.below("state").exists() and not folder.has("metadata"):
            raise ConfigError(
                f"option checkpointLocation: {folder.location} on {socket.gethostname()} is not the driver's, and has "
                "state of the query, which another executor would lack: set a location that all of them share"
            )

    def has_decisions(self) -> bool:
        """Return whether a batch of the query is decided, as far as `note_decisions` could record that."""
        with self._reading(DECIDED):
            return self.folder.has(DECIDED)

    def note_decisions(self, topic: str) -> None:
        """Record that a batch is decided in a topic, which so must not lack the next ones. Never raises."""
        try:
            with self.folder.writable(DECIDED) as file:
                file.write(f"Topic {topic} has the decisions about the batches of this query.\n".encode())
        except OSError as error:
            log.warning(
                "cannot write %s/%s, without which lost decisions pass: %s", self.folder.location, DECIDED, error
            )

    def _text(self, name: str) -> str:
        with self._reading(name):
            return self.folder.text(name)

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = ConfigError if isinstance(error, FileNotFoundError) else RetriableError  # a file system may be away
            raise kind(
                f"option checkpointLocation: {self.folder.location}/{name} cannot be read on the driver's machine: "
                f"{error}. Give the location as a URI, such as s3://bucket/query, if it is not a local path"
            ) from error


def _offsets(line: str) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the offsets of one source; of one that does not read Kafka there are none."""
    try:
        found: Any = json.loads(line)
    except ValueError:
        return
    for topic, offsets in found.items() if isinstance(found, dict) else ():
        if not isinstance(offsets, dict) or topic.startswith("/"):  # this data source keeps topics' ids there, too
            continue
        for partition, offset in offsets.items():
            if partition.isdigit() and isinstance(offset, int):
                yield TopicPartition(topic, int(partition)), offset
