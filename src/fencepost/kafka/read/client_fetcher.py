"""Fetches the records of a group's member with its librdkafka client, record by record."""

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from fencepost.api import RetriableError
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.read.assignment import AssignedPartitions, Fetcher
from fencepost.kafka.read.client_reader import CHUNK, ClientMessages
from fencepost.kafka.read.doubt import IF_RESTORED, look_at
from fencepost.kafka.read.known_positions import Restart, goes_back, is_where_the_group_is, nowhere_to_begin
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import GroupOffset, LogPosition
from fencepost.record import TopicPartition, place_names

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 2.0
READING = "reading as a member of group {}"


class ClientFetcher(Fetcher):
    """The client starts to fetch partitions when it takes them over.

    Those that are `away` wait, paused, for a leader that says whether their logs were cut. The client goes on at the
    same offset if a topic is created again, and does not say so. So a broker is asked for the ids of topics before each
    commit, and two every ten seconds. The next member finds an offset of another topic in the group, and begins anew.
    """

    def __init__(self, assignment: AssignedPartitions) -> None:
        self._assignment = assignment
        self._client = assignment.client
        self._topic_ids: dict[TopicPartition, str] = {}  # as of the assignment of each
        conf = self._client.conf
        self._messages = ClientMessages(conf, READING.format(conf.get("group.id")), has_group=True)
        self.away: set[TopicPartition] = set()
        self._look_s = 0.0

    def chunks(self, timeout_s: float, most: int) -> Iterator[Fetched]:
        """Yield fetched records in chunks, which become columns while their messages are in the processor's cache."""
        self._maybe_look_again()
        while most > 0 and self._client.error is None:
            messages = self._messages.arrived(self._client.consumer, min(most, CHUNK), timeout_s)
            if not messages or self._client.error is not None:
                return
            yield self._recorded(messages)
            if len(messages) < min(most, CHUNK):
                return
            most, timeout_s = most - len(messages), 0.0

    def _recorded(self, messages: list[Any]) -> Fetched:
        """Return what `sorted` does, and record up to where logs were read, with their leader epochs."""
        fetched = self.sorted(messages)
        known, ids = self._assignment.starts.known, self._topic_ids
        known.read_to({p: LogPosition(at, ids.get(p, ""), epoch) for p, (at, epoch) in fetched.epochs.items()})
        known.read_past(fetched.ends)
        return fetched

    def sorted(self, messages: list[Any]) -> Fetched:
        """Return the records and the ends of partitions, and handle all other events."""
        found = Read()
        fetched = self._messages.sorted(messages, found)
        self._messages.ensure_allowed(found)
        for place in found.lost:
            raise nowhere_to_begin(place, found.obstacle)
        return fetched

    def starts(
        self, places: Collection[TopicPartition], committed: Mapping[TopicPartition, GroupOffset]
    ) -> Mapping[TopicPartition, int]:
        looked, starts = look_at(self._client.conf, places, committed), self._assignment.starts
        starts.known.forget(places)
        starts.known.cluster = looked.cluster
        for place in looked.replaced:
            log.warning(
                "group %s has offset %d of a former topic %s: %s-%d is read as if it had none",
                self._client.group, committed[place].offset, place.topic, *place,
            )  # fmt: skip
            starts.drop(place)
        self.away = (self.away - set(places)).union(looked.away)
        self._topic_ids = {place: id_ for place, id_ in self._topic_ids.items() if place not in places}
        self._topic_ids.update((place, id_) for place in places if (id_ := looked.topic_ids.get(place.topic)))
        starts.known.move({p: LogPosition(at.read_to, at.topic_id, at.epoch) for p, at in looked.known.items()})
        starts.known.read_past({p: at.offset for p, at in looked.known.items()})
        for place, cut_at in looked.starts.items():
            at = looked.known[place]
            if cut_at < at.read_to:
                starts.known.forget([place])
                starts.known.go_back({place: cut_at})
                self._report_cut(place, at.offset, cut_at)
        return looked.starts

    def begin(self, begins: Mapping[TopicPartition, int]) -> None:
        self._assignment.starts.known.jump(begins)
        self.resume(begins)  # a partition that was paused when it was revoked is still paused
        if held := self.away.intersection(begins):
            self._client.pause(held)
            log.warning(
                "group %s does not read %s yet: there is no leader that could say whether the log was cut, or only an "
                "older one than that of its offset. %s",
                self._client.group, place_names(held), IF_RESTORED,
            )  # fmt: skip

    def let_go(self, places: Collection[TopicPartition]) -> None:
        self.away.difference_update(places)

    def _maybe_look_again(self) -> None:
        """Begin to fetch partitions that were `away` and have a leader now."""
        if not self.away or time.monotonic() < self._look_s:
            return
        waiting, assignment, began_s = list(self.away), self._assignment, time.monotonic()
        committed = {place: assignment.starts.committed[place] for place in waiting}
        try:
            cut = self.starts(waiting, committed)
        except KafkaUnavailableError as error:
            log.info("group %s asks for %s again: %s", self._client.group, place_names(waiting), error)
            return
        finally:
            now_s = time.monotonic()
            self._look_s = now_s + max(_LOOK_EVERY_S, now_s - began_s)  # others are read for as long
        begins = assignment.begins
        cut = {place: at for place, at in cut.items() if goes_back(committed[place], begins[place], at)}
        replaced = [place for place in waiting if place not in assignment.starts.committed]
        fresh = [
            place for place in replaced if is_where_the_group_is(committed[place], begins[place])
        ]  # not the task's own
        restarts = {place: Restart(at, is_cut=True) for place, at in cut.items()}
        try:
            restarts |= {place: Restart(assignment.starts.reset(place), is_cut=False) for place in fresh}
        except KafkaException as error:
            raise self._client.failed(error, f"asking where {place_names(fresh)} begin") from error
        assignment.starts.restarts.update(restarts)
        moved = {place: each.offset for place, each in restarts.items()}
        begins.update(moved)
        self.seek(moved)
        self.resume([place for place in waiting if place not in assignment.paused])

    def _report_cut(self, place: TopicPartition, at: int, cut_at: int) -> None:
        """Log that records are lost. Raises KafkaRequestError if no other position may be chosen."""
        if self._assignment.starts.resets_of(place) == "error":
            raise nowhere_to_begin(place, f"the log was cut at offset {cut_at}, before offset {at} of the group")
        log.error(
            "group %s was at offset %d of %s-%d, whose log was cut at %d while the group did not read: reading "
            "continues there", self._client.group, at, *place, cut_at,
        )  # fmt: skip

    def topic_ids(self) -> Mapping[TopicPartition, str]:
        return {place: self._topic_ids.get(place, "") for place in self._assignment.places}

    def ensure_same(self, ids: Mapping[str, str]) -> None:
        for place in self._assignment.places:
            if not self._topic_ids.get(place):
                self._topic_ids[place] = ids.get(place.topic, "")
        ensure_same_topics(self.topic_ids(), ids, self._client.group)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._assignment.starts.known.jump(offsets)
        self._client.seek(offsets)

    def stop(self, places: Collection[TopicPartition]) -> None:
        self._client.pause(places)

    def resume(self, places: Collection[TopicPartition]) -> None:
        self._client.consumer.resume([ClientPartition(*place) for place in places if place not in self.away])

    def known_ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        ends = {}
        for place in () if self._client.is_closed else places:
            _, high = self._client.consumer.get_watermark_offsets(ClientPartition(*place), cached=True)
            if high >= 0:
                ends[place] = high
        return ends


def ensure_same_topics(known: Mapping[TopicPartition, str], ids: Mapping[str, str], group: str) -> None:
    """Raise RetriableError if a topic has another id now than is known of a partition; see `Fetcher.ensure_same`."""
    if replaced := {place.topic for place, id_ in known.items() if id_ and (ids.get(place.topic) or id_) != id_}:
        raise RetriableError(
            f"{', '.join(sorted(replaced))}: created again while group {group} read it. What was read since the last "
            "commit may be of either topic and is not committed; reading starts over"
        )


class NoFetcher(ClientFetcher):
    """Keeps all partitions paused: another object reads them, and looks for cuts and for topics created again."""

    def topic_ids(self) -> Mapping[TopicPartition, str]:
        return {}

    def ensure_same(self, ids: Mapping[str, str]) -> None: ...

    def starts(self, *_: object) -> Mapping[TopicPartition, int]:
        return {}

    def begin(self, begins: Mapping[TopicPartition, int]) -> None:
        self._client.pause(begins)
