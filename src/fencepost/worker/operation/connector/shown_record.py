"""Records as callers of REST get them: converted, cut, and without secrets (E11)."""

import time
from collections.abc import Mapping
from math import inf
from typing import Any

from fencepost.api import Converter, RecordError, UnavailableError
from fencepost.builtin.converter.json import JsonConverter
from fencepost.cluster.topic_records import ShownRecord
from fencepost.config import ConfigError
from fencepost.dead_letter.shown import KEY, VALUE, shown_bytes, shown_headers
from fencepost.kafka.read.browse import TopicRecord
from fencepost.plugin import PluginKind
from fencepost.plugin.process import registry
from fencepost.telemetry.secret import hide

_OF_TEXT = ("JsonConverter", "StringConverter", "ByteArrayConverter")  # their bytes can be read as they are
_REGISTRY_MS = "3000"
_LONGEST_S = 10.0  # for a page: each of its records may be of a schema that a slow registry is asked for
_BUILT_IN = "fencepost.builtin.converter."


class RecordView:
    """Shows the records of one page. A converter that is not built in is not run here: its bytes are shown."""

    def __init__(self, topic: str, config: Mapping[str, str | None]) -> None:
        self._topic = topic
        self._faults: dict[str, str] = {}
        self._until_s = inf
        self._as_json = JsonConverter({"schemas.enable": "false", "converter.type": "value"})
        self._converters = {role: self._converter(role, config) for role in ("key", "value")}

    def shown(self, record: TopicRecord) -> ShownRecord:
        """Return a record. Never raises for what cannot be converted."""
        faults: list[str] = []
        self._until_s = min(self._until_s, time.monotonic() + _LONGEST_S)
        key, value = (
            self._text(role, data, record, faults) for role, data in (("key", record.key), ("value", record.value))
        )
        return ShownRecord(
            record.partition,
            record.offset,
            record.timestamp_ms,
            shown_bytes(key, KEY),
            shown_bytes(value, VALUE),
            list(shown_headers(record.headers)),
            "; ".join(faults) or None,
        )

    def _text(self, role: str, data: bytes | None, record: TopicRecord, faults: list[str]) -> bytes | None:
        converter = self._converters[role]
        if data is None or converter is None or role in self._faults:
            faults += [self._faults[role]] if role in self._faults else []
            return data
        try:
            if time.monotonic() > self._until_s:
                raise UnavailableError("converting the records before took too long; ask for fewer")
            schema, value = converter.to_connect_record(self._topic, record.headers, data)
            return self._as_json.from_connect_data(self._topic, schema, value)
        except RecordError as error:
            faults.append(f"{role}: {hide(str(error))}")
        except Exception as error:  # a registry that is away, or that refuses, is not asked for each record
            self._faults[role] = f"{role}: {hide(str(error))}"
            faults.append(self._faults[role])
        return data

    def _converter(self, role: str, config: Mapping[str, str | None]) -> Converter | None:
        name = config.get(f"{role}.converter") or ""
        found = registry().in_python(PluginKind.CONVERTER, name) if name else None
        if found is None or found[0].rpartition(".")[2] in _OF_TEXT:
            return None
        cls: Any = found[1][-1].loaded()
        if not cls.__module__.startswith(_BUILT_IN):
            return None
        prefix = f"{role}.converter."
        given = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
        limits = {"http.connect.timeout.ms": _REGISTRY_MS, "http.read.timeout.ms": _REGISTRY_MS}
        try:
            made: Converter = cls({**given, **limits, "converter.type": role})
        except ConfigError as error:
            self._faults[role] = f"{role}: {hide(str(error))}"
            return None
        return made
