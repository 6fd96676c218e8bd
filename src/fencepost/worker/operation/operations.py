"""Connects what REST can ask of this worker."""

from fencepost.cluster.command import now_ms
from fencepost.cluster.departure import Departures
from fencepost.cluster.operations import ConnectOperations
from fencepost.retention.keeper import Retention
from fencepost.worker.connector_classes import ConnectorClasses
from fencepost.worker.membership.membership import Membership
from fencepost.worker.operation.cluster.internal import InternalRequests
from fencepost.worker.operation.cluster.probes import Probes
from fencepost.worker.operation.cluster.worker_group import WorkerGroup
from fencepost.worker.operation.connector.connectors import Connectors
from fencepost.worker.operation.connector.local import LocalAnswers
from fencepost.worker.operation.connector.tasks import Tasks
from fencepost.worker.operation.offset.offsets import Offsets
from fencepost.worker.operation.offset.sink import SinkOffsets
from fencepost.worker.operation.offset.source import SourceOffsets
from fencepost.worker.operation.offset.write import OffsetWriter
from fencepost.worker.operation.plugin import Plugins
from fencepost.worker.operation.request import Requests
from fencepost.worker.progress import Progress
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.supervision import Supervision
from fencepost.worker.topics import WorkerTopics


def worker_operations(
    settings: WorkerSettings,
    topics: WorkerTopics,
    progress: Progress,
    membership: Membership,
    supervision: Supervision,
    departures: Departures,
    retention: Retention,
    probes: Probes,
) -> ConnectOperations:
    """Return the operations of a worker with these parts."""
    config, find = settings.config, ConnectorClasses().find
    requests = Requests(settings.url, topics.config, membership, progress)
    writer = OffsetWriter(settings, topics.copies, now_ms)
    offsets = Offsets(
        requests,
        SourceOffsets(
            settings, supervision.admissions.topics, writer, find, membership.rounds.fence, departures.wait_for
        ),
        SinkOffsets(settings, find, departures.wait_for, retention.offsets_lock),
    )
    return ConnectOperations(
        LocalAnswers(config, topics),
        probes,
        Connectors(requests, config, topics.status.table, topics.writer, offsets, supervision.connectors.restart),
        Tasks(requests, config, topics.status, supervision.supervisor.restart),
        offsets,
        Plugins(config),
        WorkerGroup(requests, membership.peers, topics.writer, retention),
        InternalRequests(settings, requests, membership, progress),
    )
