"""The options of a direct write, `df.write.format("fencepost")`."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.api import FatalError
from fencepost.config import ConfigError, at_least, setting
from fencepost.kafka.setting.client_settings import client_faults
from fencepost.kafka.setting.table import AUTO, BATCH, CLIENT, CLIENTS, JAVAS_PARTITIONER, LIBRDKAFKA, ClientKind
from fencepost.kafka.setting.translation import translate
from fencepost.spark.write.options import WriterConfig

COMPARE_OPTION = "fencepost.compare"
"""The file for the result of a comparison. The write then only reads rows. See `rerun`."""
COMPARED_OPTION = "fencepost.compared"
"""The file with the result of an earlier comparison."""

# A partition is one transaction; the broker's own limit (transaction.max.timeout.ms) is 15 minutes by default.
_TRANSACTION_MS = "900000"


class WritePartitionsError(FatalError):
    """The frame has more or fewer partitions than `write.partitions` says."""


class DirectWriteConfig(WriterConfig):
    """The options of `df.write.format("fencepost")`, which appends the rows of a DataFrame to Kafka topics."""

    write_partitions: int | None = setting(
        "write.partitions", default=None, check=at_least(1),
        doc="With write.id: the frame's number of partitions. Unset: `save()` counts them, in a program that imports "
        "`fencepost.spark.datasource`; another program has to set it.",
    )  # fmt: skip
    rows_per_commit: int = setting(
        "rows.per.commit", default=0, check=at_least(0),
        doc="Commit a partition in parts of this number of rows. 0: each partition is one transaction.",
    )  # fmt: skip
    producer_client: str = setting(
        "producer.client", default=AUTO,
        doc="The client that writes rows: `batch`, which is faster, or `librdkafka`, which waits for brokers that are "
        "away; `auto` is `librdkafka`.",
    )  # fmt: skip

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "DirectWriteConfig":
        """Parse the options. Raises ConfigError, which names the option."""
        internal = {key: options[key] for key in (COMPARE_OPTION, COMPARED_OPTION) if key in options}
        found = super().of({key: value for key, value in options.items() if key not in internal})
        found.originals |= internal
        return found

    def check_together(self) -> list[str]:
        """Check the settings of Kafka's clients."""
        kafka, client = self.kafka, self.key_of("producer_client")
        if "client" in kafka:
            return [f"option kafka.client is not a client setting: set {client} instead"]
        if "bootstrap.servers" not in kafka:
            return super().check_together()
        if self.client not in CLIENTS:
            return [f"option {client} is {self.producer_client}: it must be one of {', '.join(CLIENTS)}"]
        faults = client_faults({**kafka, "client": self.client})
        return [f"option kafka.{key}: {why}: remove it, or set {client} to {LIBRDKAFKA}" for key, why in faults.items()]

    @property
    def client(self) -> str:
        """Return which client writes the rows. `auto` means librdkafka, which waits for unreachable brokers."""
        return self.producer_client.strip().lower()


@dataclass(frozen=True)
class DirectWriteOptions:
    """The options of a write. If the user gave no `write_id`, a random one is made, and `partitions` is None."""

    topic: str | None
    write_id: str
    partitions: int | None
    offsets_topic: str
    rows_per_commit: int
    compare: Path | None
    compared: Path | None
    client: str
    kafka: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "DirectWriteOptions":
        """Parse and check the options. Raises ConfigError, which names the option."""
        return cls.of(DirectWriteConfig.of(options))

    @classmethod
    def of(cls, config: DirectWriteConfig) -> "DirectWriteOptions":
        """Return the options of a write. Raises ConfigError if the number of partitions is missing."""
        partitions = config.key_of("write_partitions")
        if config.write_id is not None and config.write_partitions is None:
            raise ConfigError(
                f"option {partitions} is missing, and a task of a write with {config.key_of('write_id')} cannot ask "
                "Spark for it: put `import fencepost.spark.datasource` into the program that calls df.write, and "
                f"save() counts the partitions; or cut the frame, df.coalesce(4), and set {partitions}=4"
            )
        return cls(
            topic=config.topic,
            write_id=uuid.uuid4().hex if config.write_id is None else config.write_id,
            partitions=None if config.write_id is None else config.write_partitions,
            offsets_topic=config.offsets_topic,
            rows_per_commit=config.rows_per_commit,
            compare=_path(config.originals.get(COMPARE_OPTION)),
            compared=_path(config.originals.get(COMPARED_OPTION)),
            client=config.client,
            kafka=config.kafka,
        )

    @property
    def is_anonymous(self) -> bool:
        """Say whether the write cannot be run again, as it has no id of the user's."""
        return self.partitions is None

    def conf(self, kind: ClientKind) -> dict[str, Any]:
        """Return the settings of a client. Raises ConfigError for settings that cannot be translated."""
        if kind is not ClientKind.PRODUCER:
            return dict(translate(kind, self.kafka).conf)
        conf = translate(kind, {"transaction.timeout.ms": _TRANSACTION_MS, **self.kafka}).conf
        return {**JAVAS_PARTITIONER, **conf}  # so that a rerun with the other client finds its own markers

    def transactional_conf(self) -> dict[str, Any]:
        """Return the settings of the producer of rows, with the chosen client."""
        return self.conf(ClientKind.PRODUCER) | ({CLIENT: BATCH} if self.client == BATCH else {})


def _path(text: object) -> Path | None:
    return Path(str(text)) if text else None
