"""The options of a direct write, `df.write.format("fencepost")`."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.api import FatalError
from fencepost.config import ConfigError
from fencepost.kafka.setting.client_settings import client_faults
from fencepost.kafka.setting.table import AUTO, BATCH, CLIENT, CLIENTS, JAVAS_PARTITIONER, LIBRDKAFKA, ClientKind
from fencepost.kafka.setting.translation import translate

COMPARE_OPTION = "fencepost.compare"
"""The file for the result of a comparison. The write then only reads rows. See `rerun`."""
COMPARED_OPTION = "fencepost.compared"
"""The file with the result of an earlier comparison."""

_CLIENT_OPTION = "producer.client"
_OPTIONS = ("topic", "write.id", "write.partitions", "offsets.topic", "rows.per.commit", _CLIENT_OPTION)
# A partition is one transaction; the broker's own limit (transaction.max.timeout.ms) is 15 minutes by default.
_TRANSACTION_MS = "900000"


class WritePartitionsError(FatalError):
    """The frame has more or fewer partitions than `write.partitions` says."""


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
        kafka = {k[len("kafka.") :]: v for k, v in options.items() if k.startswith("kafka.")}
        known = (*_OPTIONS, COMPARE_OPTION, COMPARED_OPTION)
        unknown = [k for k in options if not k.startswith("kafka.") and k not in known]
        if unknown:
            raise ConfigError(f"option {unknown[0]} is unknown; use one of {', '.join(_OPTIONS)} or kafka.*")
        if "client" in kafka:
            raise ConfigError(f"option kafka.client is not a client setting: set {_CLIENT_OPTION} instead")
        if "bootstrap.servers" not in kafka:
            raise ConfigError("option kafka.bootstrap.servers is missing: set it to the brokers to write to")
        has_id = "write.id" in options
        if has_id and "write.partitions" not in options:
            raise ConfigError(
                "option write.partitions is missing: with write.id, set it to the frame's number of partitions "
                "(df.coalesce(4) and write.partitions=4), because a rerun must have the same partitions"
            )
        return cls(
            topic=options.get("topic"),
            write_id=options["write.id"] if has_id else uuid.uuid4().hex,
            partitions=_number("write.partitions", options["write.partitions"], 1) if has_id else None,
            offsets_topic=options.get("offsets.topic", "fencepost-writes"),
            rows_per_commit=_number("rows.per.commit", options.get("rows.per.commit", "0"), 0),
            compare=_path(options.get(COMPARE_OPTION)),
            compared=_path(options.get(COMPARED_OPTION)),
            client=_client(options.get(_CLIENT_OPTION, AUTO), kafka),
            kafka=kafka,
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


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _client(text: str, kafka: Mapping[str, str]) -> str:
    """Return which client writes the rows. `auto` means librdkafka, which waits for unreachable brokers by itself."""
    client = text.strip().lower()
    if client not in CLIENTS:
        raise ConfigError(f"option {_CLIENT_OPTION} is {text}: it must be one of {', '.join(CLIENTS)}")
    faults = client_faults({**kafka, "client": client})
    for key, why in faults.items():
        raise ConfigError(f"option kafka.{key}: {why}: remove it, or set {_CLIENT_OPTION} to {LIBRDKAFKA}")
    return client


def _number(name: str, text: str, low: int) -> int:
    if not text.strip().isdigit() or int(text) < low:
        raise ConfigError(f"option {name} is {text}: it must be a whole number, {low} or more")
    return int(text)
