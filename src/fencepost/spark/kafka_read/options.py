"""The options of reading. Names, meaning and defaults are those of Spark's own Kafka source, unless stated here."""

import re
from collections.abc import Mapping
from typing import Any

from fencepost.config import Config, ConfigError, at_least, one_of, setting
from fencepost.config.setting import Type
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import translate
from fencepost.spark.kafka_read.selection import CHOICES, Bound, Choice, Edge, by_offset, by_time, everywhere
from fencepost.spark.row.registry import CONVERTERS, is_registry_converter

_KAFKA, _CONVERTER = "kafka.", "value.converter."
_SERVERS, _GROUP, _ISOLATION = "bootstrap.servers", "group.id", "isolation.level"
_LEVELS = ("read_committed", "read_uncommitted")
_DELAY = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_WHERE = "Spark, not the consumer, remembers how far it has read: startingOffsets says where a new query begins"
_BYTES = "keys and values come as bytes; cast the columns"
_REFUSED = {
    "auto.offset.reset": _WHERE,
    "enable.auto.commit": "nothing is committed to a group",
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "interceptor.classes": "it could change what is read",
}
_NO_RETRIES = "the client retries by itself, until kafkaConsumer.pollTimeoutMs is over"


class TopicOptions(Config):
    """What to read."""

    subscribe: str | None = setting("subscribe", default=None, doc="Topics, separated by commas.")
    subscribe_pattern: str | None = setting(
        "subscribePattern", default=None,
        doc="A Java regular expression that matches whole topic names, including topics that are created later.",
    )  # fmt: skip
    assign: str | None = setting(
        "assign", default=None, doc='Topics with their partitions, as JSON: `{"orders":[0,1]}`.'
    )


class KafkaReadConfig(TopicOptions):
    """The options of `spark.read.format("fencepost")` and `spark.readStream.format("fencepost")`.

    Set exactly one of `subscribe`, `subscribePattern` and `assign`. If several options set the start or the end, a
    timestamp for all partitions takes precedence over timestamps for each, and these over offsets.
    """

    starting_offsets: str | None = setting(
        "startingOffsets", default=None,
        doc="Where to begin: `earliest`, `latest` (streams only), or JSON with an offset for each partition: "
        '`{"orders":{"0":23,"1":-2}}`, where -2 is the earliest and -1 the latest. Unset: batches begin at the '
        "earliest offset, streams at the latest. Ignored by a stream that continues from its checkpoint.",
    )  # fmt: skip
    starting_timestamp: int | None = setting(
        "startingTimestamp", type=Type.LONG, default=None, check=at_least(0),
        doc="Begin at the first record with this timestamp or a later one, in milliseconds since 1970, in each "
        "partition.",
    )  # fmt: skip
    starting_offsets_by_timestamp: str | None = setting(
        "startingOffsetsByTimestamp", default=None,
        doc='The same with a timestamp for each partition, as JSON: `{"orders":{"0":1700000000000}}`.',
    )  # fmt: skip
    starting_strategy: str = setting(
        "startingOffsetsByTimestampStrategy", default="error", check=one_of("error", "latest"),
        doc="What happens if a partition has no record with that timestamp or a later one: an `error`, or it begins at "
        "the `latest` offset.",
    )  # fmt: skip
    ending_offsets: str = setting(
        "endingOffsets", default="latest",
        doc="Batches only. Where to end: `latest`, or JSON as for startingOffsets; the record at an ending offset is "
        "the first that is not read.",
    )  # fmt: skip
    ending_timestamp: int | None = setting(
        "endingTimestamp", type=Type.LONG, default=None, check=at_least(0),
        doc="Batches only. End before the first record with this timestamp or a later one; if there is none, at the "
        "latest offset.",
    )  # fmt: skip
    ending_offsets_by_timestamp: str | None = setting(
        "endingOffsetsByTimestamp",
        default=None,
        doc="Batches only. The same with a timestamp for each partition, as JSON.",
    )
    isolation_level: str | None = setting(
        _ISOLATION, default=None, check=one_of(*_LEVELS),
        doc="`read_committed`, the default, skips records of aborted and open transactions (the default of Spark's own "
        "source is `read_uncommitted`). The same as `kafka.isolation.level`.",
    )  # fmt: skip
    has_headers: bool = setting(
        "includeHeaders", default=False, doc="Adds a column `headers`, which is null for records without headers."
    )
    min_partitions: int | None = setting(
        "minPartitions", type=Type.INT, default=None, check=at_least(1),
        doc="The minimum number of Spark partitions: the largest ranges are split. Unset: one per Kafka partition.",
    )  # fmt: skip
    max_records_per_partition: int | None = setting(
        "maxRecordsPerPartition", type=Type.LONG, default=None, check=at_least(1),
        doc="The maximum number of offsets in a Spark partition: larger ranges are split.",
    )  # fmt: skip
    max_offsets_per_trigger: int | None = setting(
        "maxOffsetsPerTrigger", type=Type.LONG, default=None, check=at_least(1),
        doc="Streams only. The approximate number of offsets in a micro-batch, divided among the partitions in "
        "proportion to what is waiting in each.",
    )  # fmt: skip
    min_offsets_per_trigger: int | None = setting(
        "minOffsetsPerTrigger", type=Type.LONG, default=None, check=at_least(1),
        doc="Streams only. A micro-batch waits for this number of offsets, or until maxTriggerDelay is over.",
    )  # fmt: skip
    max_trigger_delay: str = setting(
        "maxTriggerDelay", default="15m", doc="Streams only. How long minOffsetsPerTrigger may delay a micro-batch."
    )
    fails_on_loss: bool = setting(
        "failOnDataLoss", default=True,
        doc="Whether the query fails if data that it should read is gone: below the start of the log, beyond its end, "
        "or because the topic was deleted. If `false`, a warning is logged, and the remaining records are read.",
    )  # fmt: skip
    idle_ms: int = setting(
        "kafkaConsumer.pollTimeoutMs", type=Type.LONG, default=120_000, check=at_least(1),
        doc="How long to wait without receiving data before the query fails.",
    )  # fmt: skip
    group_id_prefix: str = setting(
        "groupIdPrefix", default="fencepost-reader",
        doc="The group id that the consumers send, for quotas and logs; `kafka.group.id` takes precedence. They do not "
        "join the group and commit nothing.",
    )  # fmt: skip
    value_converter: str | None = setting(
        "value.converter", default=None,
        doc="A converter whose schemas are in a registry (`io.confluent.connect.avro.AvroConverter`): `value` is a "
        "struct of the columns of the topic's newest schema. Its settings follow, as in a connector's config, such as "
        "`value.converter.schema.registry.url`. Unset: `value` is bytes.",
    )  # fmt: skip
    value_schema_subject: str | None = setting(
        "value.schema.subject", default=None,
        doc="With `value.converter`: the subject whose newest schema has the columns of all topics. Unset: of each "
        "topic `TOPIC-value`.",
    )  # fmt: skip
    fetch_retries: int = setting(
        "fetchOffset.numRetries",
        type=Type.INT,
        default=3,
        doc="An option of Spark's own source.",
        without_effect=_NO_RETRIES,
    )
    fetch_retry_interval_ms: int = setting(
        "fetchOffset.retryIntervalMs",
        type=Type.LONG,
        default=1_000,
        doc="An option of Spark's own source.",
        without_effect=_NO_RETRIES,
    )

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "KafkaReadConfig":
        """Parse a source's options, whose names Spark passes in lower case. Raises ConfigError."""
        names = {key.lower(): key for key in cls.settings()}
        prefixes = (_KAFKA, _CONVERTER)
        unknown = [key for key in options if key.lower() not in names and not key.lower().startswith(prefixes)]
        if unknown:
            raise ConfigError(
                f"option {unknown[0]} is unknown to a reader; there are {', '.join(names.values())}, kafka.* and "
                "value.converter.*"
            )
        return cls({names.get(key.lower(), key.lower()): str(value) for key, value in options.items()})

    def check_together(self) -> list[str]:
        """Check what Spark's own source refuses, and that every option can be parsed."""
        faults = super().check_together()
        faults += [
            f"option {_KAFKA}{key} is not supported: {why}" for key, why in _REFUSED.items() if key in self._kafka
        ]
        if not self._kafka.get(_SERVERS):
            faults.append(f"option {_KAFKA}{_SERVERS} is missing: it names the brokers to read from")
        name = self.value_converter
        if name is not None and not is_registry_converter(name):
            known = ", ".join(CONVERTERS)
            faults.append(f"option value.converter={name} is not supported: use {known}, or leave it out for bytes")
        parsed = (lambda: self.choice, lambda: self.starting, lambda: self.ending, lambda: self.max_trigger_delay_s)
        for parse in (*parsed, self.conf):
            try:
                parse()
            except ConfigError as error:
                faults.extend(error.messages)
        return faults

    @property
    def choice(self) -> Choice:
        given = {key: value for key in CHOICES if (value := self._values[key]) is not None}
        if len(given) != 1:
            few = "is missing" if not given else f"too many: {', '.join(given)}"
            raise ConfigError(f"exactly one of the options {', '.join(CHOICES)} says what to read: {few}")
        [(key, text)] = given.items()
        return CHOICES[key](key, text)

    @property
    def starting(self) -> Bound | None:
        """Return where to begin; None if no option says it."""
        return self._bound("starting")

    @property
    def ending(self) -> Bound:
        return self._bound("ending") or everywhere(Edge.LATEST)

    @property
    def max_trigger_delay_s(self) -> float:
        found = _DELAY.fullmatch(self.max_trigger_delay)
        if found is None or found[2].lower() not in _UNITS_S:
            raise ConfigError(
                f"option {self.key_of('max_trigger_delay')} is {self.max_trigger_delay}: write a time such as 15m, 90s "
                "or 500ms"
            )
        return int(found[1]) * _UNITS_S[found[2].lower()]

    @property
    def is_committed_only(self) -> bool:
        return self._level() == _LEVELS[0]

    def conf(self) -> dict[str, Any]:
        """Return the settings of a consumer. Raises ConfigError for settings that cannot be translated."""
        return dict(range_conf({**self._kafka, _ISOLATION: self._level()}, self._group()).conf)

    def admin_conf(self) -> dict[str, Any]:
        """Return the settings of an admin client."""
        return dict(translate(ClientKind.ADMIN, self._kafka).conf)

    def warnings(self) -> list[str]:
        """Return a text for each client setting that has no effect."""
        given = {key: value for key, value in self._kafka.items() if key != _GROUP}
        return range_conf(given, self._group()).warnings

    def converter_conf(self) -> dict[str, str]:
        """Return the settings of the converter, without prefix."""
        return {key: str(value) for key, value in self.with_prefix(_CONVERTER).items()}

    def given(self, *attributes: str) -> list[str]:
        """Return the names of the options that were given."""
        return [key for key in map(self.key_of, attributes) if key in self.originals]

    @property
    def _kafka(self) -> dict[str, object]:
        return self.with_prefix(_KAFKA)

    def _group(self) -> str:
        return str(self._kafka.get(_GROUP) or self.group_id_prefix)

    def _level(self) -> str:
        own, client = self.isolation_level, self._kafka.get(_ISOLATION)
        if own is not None and client is not None and own.lower() != str(client).lower():
            raise ConfigError(f"options {_ISOLATION} and {_KAFKA}{_ISOLATION} differ: give one of them")
        return str(own or client or _LEVELS[0]).lower()

    def _bound(self, which: str) -> Bound | None:
        at_ms = getattr(self, f"{which}_timestamp")
        times = f"{which}_offsets_by_timestamp"
        offsets = f"{which}_offsets"
        if at_ms is not None:
            return by_time(self.key_of(f"{which}_timestamp"), at_ms)
        if getattr(self, times) is not None:
            return by_time(self.key_of(times), getattr(self, times))
        text = getattr(self, offsets)
        return None if text is None else by_offset(self.key_of(offsets), text)
