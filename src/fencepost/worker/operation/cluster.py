"""The cluster: who does what, log levels, retention, health, and requests of other workers."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from fencepost.cluster.command import PutTaskConfigs, now_ms
from fencepost.cluster.errors import NotLeadingError, NotReadyError, RequestTimeoutError
from fencepost.cluster.info import Health, HealthStatus, Place, RetentionInfo
from fencepost.cluster.leader import Leader
from fencepost.cluster.session_key import RequestVerifier, for_caller
from fencepost.cluster.topic_records import TopicOperations
from fencepost.config.file import stale_files
from fencepost.config.reference import RawConfig
from fencepost.retention.keeper import Retention
from fencepost.secret.known import hide
from fencepost.storage import records
from fencepost.storage.config_topic import ConfigTopic, TopicWriter
from fencepost.worker.host.spark_keeper import SparkKeeper
from fencepost.worker.membership.membership import Membership
from fencepost.worker.membership.peers import Peers
from fencepost.worker.operation.observation.figures import Figures
from fencepost.worker.operation.observation.logs import Logs
from fencepost.worker.operation.request import READ_S, Requests
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.state import Progress

_READ_S = 10.0
_HEALTHY = "Worker has completed startup and is ready to handle requests."
_STARTING = "Worker is still starting up."
_WITHOUT_SPARK = "Worker answers requests, but cannot run tasks: Spark is not running, and is started again."
_BEFORE_SPARK = "Worker answers requests, but cannot run tasks yet: Spark is starting."
_REFUSED = "It leads, and fails to write what it decides:"
_STALE = "What these files said before they were changed is still in use (the log says why):"
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


class InternalRequests:
    """The `InternalOperations` of a worker."""

    def __init__(
        self, settings: WorkerSettings, requests: Requests, membership: Membership, progress: Progress
    ) -> None:
        self._is_exactly_once = settings.is_exactly_once
        self._requests = requests
        self._leader, self._rounds = membership.leader, membership.rounds
        self._peers, self._algorithm = membership.peers, settings.config.signature_algorithm
        self._progress = progress
        self._verifier = RequestVerifier(
            settings.incarnation,
            tuple(settings.config.verification_algorithms),
            now_ms,
            accepts_body_only=settings.config.accepts_body_signatures,
        )

    def verify(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bool:
        return self._verifier.verify(self._requests.snapshot.session_key, method, path, body, headers)

    def sign_caller(self, url: str, caller: str, method: str, path: str, body: bytes) -> Mapping[str, str]:
        headers = self._peers.signed(url, self._algorithm, for_caller(method, caller), path, body)
        if headers is None:
            self._requests.catch_up()
            raise NotReadyError(f"This worker does not know yet how to sign requests to {url}; try again.")
        return headers

    def verify_caller(
        self, caller: str, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> bool:
        key = self._requests.snapshot.session_key
        return self._verifier.verify(key, method, path, body, headers, caller=caller)

    def put_task_configs(self, name: str, configs: Sequence[RawConfig]) -> None:
        command = PutTaskConfigs(name, configs, self._is_exactly_once)
        self._ensure_leading()
        with self._progress.doing(f"writing task configs for connector {name} to the config topic"):
            self._requests.result(self._leader.submit(command))

    def fence(self, name: str) -> None:
        self._ensure_leading()
        with self._progress.doing(f"fencing older tasks of connector {name}"):
            try:
                self._requests.result(self._rounds.fence(name))
            except RequestTimeoutError as error:
                raise NotReadyError(f"Fencing of connector {name} has not finished, retry: {error}") from error

    def _ensure_leading(self) -> None:
        """Raise NotLeadingError unless this worker leads: other workers then look up the leader and retry."""
        if not self._leader.is_leading:
            raise NotLeadingError


class Probes:
    """The `ProbeOperations` of a worker."""

    def __init__(
        self, health: Callable[[], Health], metrics: Callable[[], bytes], figures: Figures, logs: Logs
    ) -> None:
        self.health = health
        self.metrics = metrics
        self.figures, self.figures_here = figures.read, figures.here
        self.past, self.past_here = figures.past.read, figures.past.here
        self.logs, self.logs_here = logs.read, logs.here


class HealthCheck:
    """Whether this worker can work, and what it fails to do."""

    def __init__(self, topic: ConfigTopic, progress: Progress, spark: SparkKeeper, leader: Leader) -> None:
        self._topic = topic
        self._progress = progress
        self._spark = spark
        self._leader = leader

    def __call__(self) -> Health:
        if not self._progress.is_started:
            return Health(HealthStatus.STARTING, f"{_STARTING} {self._progress.described()}")
        try:
            self._topic.read_to_end(_READ_S)
        except Exception:
            return Health(HealthStatus.UNHEALTHY, f"{_UNHEALTHY} {self._progress.described()}")
        absence = self._spark.absence
        if absence is not None:
            return Health(HealthStatus.STARTING, f"{_WITHOUT_SPARK} {hide(absence)}")
        if not self._spark.is_ready:
            return Health(HealthStatus.STARTING, _BEFORE_SPARK)
        return Health(HealthStatus.HEALTHY, " ".join([_HEALTHY, *self._troubles()]))

    def _troubles(self) -> Iterator[str]:
        """Yield what a restart would not mend, so that the worker stays healthy."""
        if (refusal := self._leader.refusal) is not None:
            yield f"{_REFUSED} {hide(refusal)}"
        if stale := stale_files():
            yield f"{_STALE} {', '.join(stale)}."


class WorkerGroup:
    """The `ClusterOperations` of a worker."""

    def __init__(
        self,
        requests: Requests,
        peers: Peers,
        writer: TopicWriter,
        retention: Retention,
        topics: TopicOperations,
    ) -> None:
        self.topics = topics
        self._requests = requests
        self._peers = peers
        self._writer = writer
        self._retention = retention

    def locate(self, place: Place) -> str | None:
        return self._peers.locate(place)

    def catch_up(self) -> None:
        self._requests.catch_up()

    def retention(self, *, is_preview: bool) -> RetentionInfo:
        self._requests.ensure_leading()
        return self._retention.preview() if is_preview else self._retention.info()

    def set_log_level(self, namespace: str, level: str) -> None:
        with self._requests.asking(f"writing the level of logger {namespace}"):
            self._writer.write([records.logger_level(namespace, level)], READ_S)
