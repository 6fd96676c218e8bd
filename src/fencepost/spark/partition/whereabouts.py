"""Tells the worker where a thread of an executor is while a run takes long: Spark knows only its JVM's threads.

What this process logs meanwhile is in the worker's log with its level, if it is a line of a local executor.
"""

import contextlib
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator

from fencepost.task.channel.client import ChannelClient, ChannelError
from fencepost.task.channel.message import Path
from fencepost.task.channel.split_message import Whereabouts
from fencepost.task.start.progress import is_in_kafka, stack_of
from fencepost.telemetry.slot_log import write_slot_log

_EVERY_S = 5.0


@contextlib.contextmanager
def telling_where(channel_url: str, run: str) -> Iterator[None]:
    """Tell the worker every few seconds where this thread is, as long as the block lasts."""
    if not logging.getLogger().handlers:  # unless somebody else uses them in this process
        write_slot_log("WARNING")
    over = threading.Event()
    thread = threading.current_thread()
    threading.Thread(target=_tell, args=(thread, over, channel_url, run), name="whereabouts", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _tell(thread: threading.Thread, over: threading.Event, channel_url: str, run: str) -> None:
    channel, place = ChannelClient(channel_url), f"process {os.getpid()} on {socket.gethostname()}"
    while not over.wait(_EVERY_S):
        frame = sys._current_frames().get(thread.ident or 0)
        if frame is None:
            return
        message = Whereabouts(run, place, stack_of(thread), is_in_kafka(frame))
        with contextlib.suppress(ChannelError):  # the run may have ended; the next message tells as much
            channel.call(Path.RUN_WHEREABOUTS, message.to_json(), timeout_s=_EVERY_S)
