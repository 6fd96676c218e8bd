"""Connects what REST can ask of this worker."""

from fencepost.cluster.command import now_ms
from fencepost.cluster.operations import ConnectOperations
from fencepost.cluster.running import Departures
from fencepost.retention.keeper import Retention
from fencepost.worker.connector_classes import ConnectorClasses
from fencepost.worker.membership.membership import Membership
from fencepost.worker.operation.cluster import InternalRequests, Probes, WorkerGroup
from fencepost.worker.operation.connector.connectors import Connectors, LocalAnswers, Tasks
from fencepost.worker.operation.connector.dead_letters import DeadLetters, Resends
from fencepost.worker.operation.connector.topic_records import TopicRecords
from fencepost.worker.operation.offset.offsets import Offsets
from fencepost.worker.operation.offset.sink import SinkOffsets
from fencepost.worker.operation.offset.source import OffsetWriter, SourceOffsets
from fencepost.worker.operation.plugin import Plugins
from fencepost.worker.operation.request import Requests
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.state import WorkerState
from fencepost.worker.supervision.supervision import Supervision
from fencepost.worker.topics import WorkerTopics


def worker_operations(
    settings: WorkerSettings,
    topics: WorkerTopics,
    state: WorkerState,
    membership: Membership,
    supervision: Supervision,
    departures: Departures,
    retention: Retention,
    probes: Probes,
) -> ConnectOperations:
    """Return the operations of a worker with these parts."""
    config, find = settings.config, ConnectorClasses().find
    requests = Requests(settings.url, topics.config, membership, state.progress)
    writer = OffsetWriter(settings, topics.copies, now_ms)
    offsets = Offsets(
        requests,
        SourceOffsets(
            settings, supervision.admissions.topics, writer, find, membership.rounds.fence, departures.wait_for
        ),
        SinkOffsets(settings, find, departures.wait_for, retention.offsets_lock),
    )

    def may_resend(connector: str) -> bool:
        is_leading = membership.leader.is_leading and not state.stopping.is_set()
        return is_leading and connector in topics.snapshot.connectors

    dead_letters = DeadLetters(requests, settings, Resends(may_resend))
    records = TopicRecords(requests, settings, topics.status.table.topics)
    restart, statuses = supervision.connectors.restart, topics.status.table
    return ConnectOperations(
        LocalAnswers(config, topics),
        probes,
        Connectors(requests, config, statuses, topics.writer, offsets, restart, dead_letters),
        Tasks(requests, config, topics.status, supervision.supervisor.restart),
        offsets,
        Plugins(config),
        WorkerGroup(requests, membership.peers, topics.writer, retention, records),
        InternalRequests(settings, requests, membership, state.progress),
    )
