"""The committed position of a source: from its offsets topics, or from the group that keeps its offsets."""

from collections.abc import Sequence

from fencepost.config.raw import RawConfig
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.value.group_offset import FORGOTTEN
from fencepost.storage.offset_topic import KnownOffset, encode_key
from fencepost.storage.offset_view import OffsetTopics, OffsetView
from fencepost.worker.settings import WorkerSettings


def read_offsets(
    settings: WorkerSettings,
    topics: OffsetTopics,
    connector: str,
    config: RawConfig,
    timeout_s: float,
    *,
    tasks: Sequence[RawConfig] = (),
    may_be_missing: bool = False,
) -> OffsetView:
    """Read what a connector with this config has committed; waits for open transactions (E3).

    `tasks` are the configs of its tasks: an open transaction may contain the first offset of their partitions.
    `may_be_missing`: its own offsets topic. Raises what `OffsetTopics.read` and `read_stable` raise.
    """
    held = settings.offsets_in_group(connector, config)
    view = topics.read(connector, settings.own_offsets(config), timeout_s, may_be_missing=may_be_missing)
    if held is None:
        return view
    places = held.places(tasks)
    found = read_stable(settings.task_admin_conf(config), held.group, timeout_s, places)
    sources = [
        held.source(place, at.offset, at.metadata) for place, at in sorted(found.items()) if at.metadata != FORGOTTEN
    ]
    known = [KnownOffset(p, o, encode_key(connector, p), 0) for p, o in filter(None, sources)]
    return OffsetView(connector, (), [*known, *(one for one in view.known if held.place(one.partition or {}) is None)])
