"""Both task hosts, with the channel to their executors, the cores they share, and the keeper of Spark."""

import logging
import os
import threading

from fencepost.config.worker import WorkerConfig
from fencepost.spark.slot.cores import CoreLedger
from fencepost.spark.slot.job import ProcessEnds
from fencepost.task.channel.message import Path
from fencepost.task.slot.worker_line import SlotSpec
from fencepost.task.tracing.exports import close_tracing
from fencepost.worker.channel import ChannelServer, ChannelTls, Handler
from fencepost.worker.host.dataframe_host import DataFrameHost
from fencepost.worker.host.driver import Driver
from fencepost.worker.host.slot import SlotPool
from fencepost.worker.host.spark_keeper import SparkKeeper, TaskForecast
from fencepost.worker.host.split.channel import SplitChannel
from fencepost.worker.plan import class_of
from fencepost.worker.supervision.supervision import Supervision


class Hosts:
    """Connects the parts of this package."""

    def __init__(
        self,
        config: WorkerConfig,
        driver: Driver,
        supervision: Supervision,
        forecast: TaskForecast,
        stopping: threading.Event,
    ) -> None:
        self.ends = ProcessEnds()
        self._ledger = CoreLedger(0, reserved=1)
        self._channel = ChannelServer(driver.secret.encode(), host=config.channel_host, tls=_channel_tls(config))
        self.slots = SlotPool(
            supervision.supervisor,
            self._ledger,
            self.ends,
            SlotSpec(
                "",
                self._channel.url,
                config.slot_lease_ms / 1000,
                logging.getLevelName(logging.getLogger().getEffectiveLevel()),
            ),
            config.slots_max or max(2, os.cpu_count() or 2),
        )
        self.frames = DataFrameHost(
            config,
            supervision.supervisor,
            self._ledger,
            supervision.admissions,
            class_of,
            SplitChannel(self._channel.url, supervision.copying),
            self.ends,
        )
        self.spark = SparkKeeper(driver, self._ledger, self.slots, self.frames, forecast, stopping)
        self._handlers: dict[str, Handler] = {
            Path.SLOT_REGISTER: self.slots.channel.register,
            Path.SLOT_DIRECTIVES: self.slots.channel.directives,
            Path.SLOT_REPORT: self.slots.channel.report,
            Path.SLOT_STACKS: self.slots.channel.stacks,
            Path.TASK_ADMIT: supervision.admissions.admit,
            Path.TASK_COPY: supervision.copying.handle,
            **self.frames.channel.handlers(),
        }
        supervision.hosts.attach(self.slots, self.frames)

    def start(self) -> None:
        """Open the channel and start Spark, so that a slot may be there before the worker is ready for tasks."""
        self._channel.start(self._handlers)
        self.spark.start()

    def stop(self) -> None:
        """Close the channel and stop Spark, then send the last spans of DataFrame tasks."""
        self._channel.stop()
        self.spark.stop()
        close_tracing()


def _channel_tls(config: WorkerConfig) -> ChannelTls | None:
    if config.channel_certificate is None or config.channel_key is None:
        return None
    return ChannelTls(config.channel_certificate, config.channel_key)
