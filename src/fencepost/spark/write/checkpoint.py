"""The files in which Spark keeps a query's progress, as the driver's machine sees them."""

import hashlib
import json
from dataclasses import dataclass

from fencepost.config import ConfigError
from fencepost.spark.write.folder import Folder

_DIGEST_CHARACTERS = 32


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint location. Every method raises ConfigError if its file cannot be read."""

    folder: Folder

    def query_id(self) -> str:
        """Return the id of the query, which Spark writes before its first micro-batch."""
        return str(json.loads(self._text("metadata"))["id"])

    def digest(self, batch: int) -> str:
        """Return a digest of the offsets of a micro-batch.

        Spark writes them before it runs the micro-batch, and a micro-batch that is run again has the same.
        """
        return hashlib.sha256(self._text(f"offsets/{batch}").encode()).hexdigest()[:_DIGEST_CHARACTERS]

    def _text(self, name: str) -> str:
        try:
            return self.folder.text(name)
        except OSError as error:
            raise ConfigError(
                f"option checkpointLocation: {self.folder.location}/{name} cannot be read on the driver's machine: "
                f"{error}. Give the location as a URI, such as s3://bucket/query, if it is not a local path"
            ) from error
