"""Removes members that are all dead, so that the group's offsets can be changed before their session time-outs.

No request reports whether a member is alive. A live member that is removed learns of it with its next heartbeat and
joins again, so the group is watched for a while.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.group_admin import GroupAdmin
from fencepost.kafka.group.group_offsets import GroupInUseError
from fencepost.kafka.group.leave import remove_members

log = logging.getLogger(__name__)

_HEARTBEAT_MS = 3_000  # Kafka's default
_JOINS_S = 1.0
_LOOK_S = 0.25
_NON_EMPTY = 68  # NON_EMPTY_GROUP, Kafka's error for a group that has members


def take_out_dead_members(conf: Mapping[str, Any], is_ours: Callable[[str], bool], timeout_s: float) -> None:
    """Remove all members of the group of `conf` if `is_ours` is true of each one's client id.

    Returns at once if there are no members, or others too. Raises GroupInUseError if a member joins again within two
    heartbeats, and so is alive. If Kafka refuses or does not answer, the members stay, and that is logged.
    """
    group = str(conf["group.id"])
    try:
        with closing(GroupAdmin(conf, timeout_s=timeout_s)) as admin:
            members = admin.describe(group).members
            if not members or not all(is_ours(each.client_id) for each in members):
                return
            remove_members(conf, group, [each.member_id for each in members], timeout_s)
            names = ", ".join(sorted({each.client_id for each in members}))
            log.warning("group %s: removed members %s; a live one would join again", group, names)
            _ensure_none_comes_back(admin, group, conf)
    except GroupInUseError:
        raise
    except (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError) as error:
        log.warning("members of ended tasks may stay in group %s until session.timeout.ms: %s", group, error)


def _ensure_none_comes_back(admin: GroupAdmin, group: str, conf: Mapping[str, Any]) -> None:
    until_s = time.monotonic() + 2 * int(conf.get("heartbeat.interval.ms", _HEARTBEAT_MS)) / 1000 + _JOINS_S
    while time.monotonic() < until_s:
        time.sleep(_LOOK_S)
        back = admin.describe(group).members
        if back:
            lives = f"{back[0].client_id} at {back[0].host}"
            raise GroupInUseError(f"group {group} has a live member: {lives}", _NON_EMPTY)
