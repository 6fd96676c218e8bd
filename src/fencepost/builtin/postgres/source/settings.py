"""What the connector and its tasks are told: Debezium's settings, and which part of a snapshot a task reads."""

from typing import ClassVar

from fencepost.api import one_of, setting
from fencepost.builtin.postgres.envelope import PostgresSettings
from fencepost.postgres.connection import ConnectionSettings

_WITHOUT_SNAPSHOT = ("no_data", "never")
_MODES = ("initial", "initial_only", "when_needed", *_WITHOUT_SNAPSHOT)


class SourceSettings(PostgresSettings):
    """The settings of the source."""

    chunk_bytes: ClassVar[int] = 24 << 20
    """About how large a chunk of the snapshot is, with what is stored outside of the rows (TOAST)."""

    transaction_too_large: str = setting(
        "transaction.too.large",
        default="fail",
        check=one_of("fail", "split"),
        doc="What happens to a database transaction that takes more than half of the time that a Kafka transaction may "
        "last: the task fails and nothing of it is visible (`fail`), or it is written in several Kafka transactions "
        "(`split`).",
    )
    part: int = setting("snapshot.part", default=0, doc="Which part of the snapshot a task reads. Set for tasks only.")
    parts: int = setting("snapshot.parts", default=1, doc="How many parts there are. Set for tasks only.")
    snapshot_name: str = setting(
        "snapshot.exported.name", default="", doc="The name under which the snapshot is exported. Set for tasks only."
    )

    @property
    def prefix(self) -> str:
        return self.topic_prefix

    @property
    def has_snapshot(self) -> bool:
        """Say whether rows are read if there is no position."""
        return self.snapshot_mode.lower() not in _WITHOUT_SNAPSHOT

    @property
    def has_stream(self) -> bool:
        """Say whether changes are streamed after the snapshot. If not, no slot is left."""
        return self.snapshot_mode.lower() != "initial_only"

    @property
    def repeats_snapshot(self) -> bool:
        """Say whether rows are read again if the slot was lost."""
        return self.snapshot_mode.lower() == "when_needed"

    def check_together(self) -> list[str]:
        found = super().check_together()
        if self.snapshot_mode.lower() not in _MODES:
            key = type(self).key_of("snapshot_mode")
            found.append(
                f"Invalid value {self.snapshot_mode} for configuration {key}: it is not supported, as each restart "
                f"of a task would read all rows again; set one of {', '.join(_MODES)}"
            )
        return found

    def connection_settings(self) -> ConnectionSettings:
        """Return how to connect to the database."""
        return ConnectionSettings(
            host=self.hostname,
            port=self.port,
            database=self.dbname,
            user=self.user,
            password=None if self.password is None else self.password.reveal(),
            sslmode=self.sslmode.lower(),
            sslrootcert=self.sslrootcert,
            sslcert=self.sslcert,
            sslkey=self.sslkey,
            application_name=f"fencepost {self.prefix}",
            tcp_keep_alive=self.tcp_keep_alive,
        )

    def left_in_snapshot(self) -> str:
        """Return why offsets of an unfinished snapshot of Debezium's cannot be continued."""
        return (
            f"the offsets of server {self.prefix} are those of a snapshot that Debezium has not completed: let it "
            "complete, or delete the offsets and the slot to begin with a new snapshot"
        )
