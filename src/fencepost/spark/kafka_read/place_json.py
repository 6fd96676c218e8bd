"""The JSON of Spark's own Kafka source: partitions of topics, with a number for each."""

from collections.abc import Mapping
from typing import Any

import orjson

from fencepost.config import ConfigError
from fencepost.record import TopicPartition

_PLACES = '{"orders":[0,1]}'
_NUMBERS = '{"orders":{"0":23,"1":-2}}'


def parse_places(option: str, text: str) -> frozenset[TopicPartition]:
    """Return the partitions that an option names. Raises ConfigError."""
    parsed = _parsed(option, text, _PLACES)
    if not all(isinstance(found, list) and found and all(map(_is_partition, found)) for found in parsed.values()):
        raise _wrong(option, text, _PLACES)
    return frozenset(TopicPartition(topic, partition) for topic, found in parsed.items() for partition in found)


def parse_numbers(option: str, text: str, lowest: int) -> dict[TopicPartition, int]:
    """Return the number of each partition in an option, at least `lowest`. Raises ConfigError."""
    parsed = _parsed(option, text, _NUMBERS)
    numbers = {}
    for topic, found in parsed.items():
        if not isinstance(found, dict):
            raise _wrong(option, text, _NUMBERS)
        for partition, number in found.items():
            if not partition.isdecimal() or type(number) is not int or number < lowest:
                raise _wrong(option, text, _NUMBERS)
            numbers[TopicPartition(topic, int(partition))] = number
    if not numbers:
        raise _wrong(option, text, _NUMBERS)
    return numbers


def nested(numbers: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return the JSON form of a number for each partition, in order."""
    found: dict[str, dict[str, int]] = {}
    for place in sorted(numbers):
        found.setdefault(place.topic, {})[str(place.partition)] = numbers[place]
    return found


def flat(numbers: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return the numbers by partition, from the form of `nested`."""
    return {TopicPartition(t, int(p)): number for t, found in numbers.items() for p, number in found.items()}


def _is_partition(value: Any) -> bool:
    return type(value) is int and value >= 0


def _parsed(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict) or not parsed:
        raise _wrong(option, text, example)
    return parsed


def _wrong(option: str, text: str, example: str) -> ConfigError:
    return ConfigError(f"option {option} is {text}: write it as in {example}")
