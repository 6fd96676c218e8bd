"""The options of writing rows to Kafka, `format("fencepost")`."""

from collections.abc import Mapping
from typing import Any, Self

from fencepost.api import Converter
from fencepost.config import Config, ConfigError, setting
from fencepost.config.cluster import DECISIONS
from fencepost.kafka.setting.client_settings import client_faults, range_conf
from fencepost.kafka.setting.table import BATCH, JAVAS_PARTITIONER, ClientKind
from fencepost.kafka.setting.translation import translate
from fencepost.spark.row.registry import CONVERTERS, is_registry_converter, registry_converter

_KAFKA, _CONVERTER, _SERVERS = "kafka.", "value.converter.", "bootstrap.servers"
_GROUP = "fencepost-write"  # never joined
# The broker's own limit (transaction.max.timeout.ms) is 15 minutes by default.
_TRANSACTION_MS = "900000"
_SENT_BYTES_PER_S = 100_000_000  # by one driver, on a machine that is busy


class WriterConfig(Config):
    """The options of `format("fencepost")` for `df.write` and `writeStream`, which append rows to Kafka topics."""

    topic: str | None = setting(
        "topic", default=None,
        doc="The topic that rows are written to. Unset: the frame has a column `topic`, and a column `value`. If both "
        "are given, the option counts.",
    )  # fmt: skip
    write_id: str | None = setting(
        "write.id", default=None,
        doc="`df.write` only. A name for this write. Under the same name it can be run again, and no row is written "
        "twice. Unset: a rerun writes all rows again.",
    )  # fmt: skip
    offsets_topic: str = setting(
        "offsets.topic",
        default=DECISIONS,
        doc="The compacted topic in which each transaction records what it has written. Created if it is missing.",
    )
    staging_location: str | None = setting(
        "staging.location", default=None,
        doc="A folder that executors and the driver share, as a path or a URI, for the output of tasks above 1 MiB. "
        "Unset: a stream uses its checkpoint location, and `df.write` a temporary directory of the driver's machine.",
    )  # fmt: skip
    commit_group: str | None = setting(
        "commit.group", default=None,
        doc="Streams only. A consumer group to which each transaction also commits how far the query has read its "
        "topics, for tools that show lag. It must have no members: the query itself does not read the offsets.",
    )  # fmt: skip

    query_id: str | None = setting(
        "query.id", default=None,
        doc="Streams only. A name for this query, the same at each start. If a query of this name has written with a "
        "checkpoint location that is empty now, as when a file system is not mounted, it is refused. Unset: it begins "
        "again.",
    )  # fmt: skip
    value_converter: str | None = setting(
        "value.converter", default=None,
        doc="A converter whose schemas are in a registry (`io.confluent.connect.avro.AvroConverter`), by which "
        "executors write the column `value`, of any type. Its settings follow, as in a connector's config, such as "
        "`value.converter.schema.registry.url`. Unset: `value` is bytes or text.",
    )  # fmt: skip

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Parse the options. Raises ConfigError, which names the option."""
        unknown = [key for key in options if not key.startswith((_KAFKA, _CONVERTER)) and key not in cls.settings()]
        if unknown:
            raise ConfigError(
                f"option {unknown[0]} is unknown; use one of {', '.join(cls.settings())}, kafka.* or value.converter.*"
            )
        return cls(options)

    def check_together(self) -> list[str]:
        """Check the settings of Kafka's clients."""
        kafka = self.kafka
        if _SERVERS not in kafka:
            return [f"option kafka.{_SERVERS} is missing: set it to the brokers to write to"]
        faults = client_faults({**kafka, "client": BATCH})
        found = [f"option kafka.{key}: {why}: remove it" for key, why in faults.items()]
        if self.value_converter is not None and not is_registry_converter(self.value_converter):
            found.append(f"option value.converter={self.value_converter}: use one of {', '.join(CONVERTERS)}, or none")
        return found

    def converter(self) -> Converter | None:
        """Return what writes values on executors; None if they are bytes. Raises ConfigError for wrong settings."""
        return None if self.value_converter is None else registry_converter(self.originals)

    @property
    def kafka(self) -> dict[str, str]:
        return {key: str(value) for key, value in self.with_prefix(_KAFKA).items()}

    def conf(self, kind: ClientKind) -> dict[str, Any]:
        """Return the settings of a client. Raises ConfigError for settings that cannot be translated."""
        if kind is not ClientKind.PRODUCER:
            return dict(translate(kind, self.kafka).conf)
        conf = translate(kind, {"transaction.timeout.ms": _TRANSACTION_MS, **self.kafka}).conf
        return {**JAVAS_PARTITIONER, **conf}

    @property
    def most_bytes(self) -> int:
        """Return how much a driver can send in one transaction."""
        return int(self.transaction_timeout_s * _SENT_BYTES_PER_S)

    @property
    def transaction_timeout_s(self) -> float:
        return float(self.kafka.get("transaction.timeout.ms", _TRANSACTION_MS)) / 1000

    def range_conf(self) -> dict[str, Any]:
        """Return the settings of a reader of committed records."""
        return dict(range_conf({**self.kafka, "isolation.level": "read_committed"}, _GROUP).conf)
