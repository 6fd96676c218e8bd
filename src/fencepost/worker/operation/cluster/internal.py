"""Requests of other workers to the leader."""

from collections.abc import Mapping, Sequence

from fencepost.cluster.command import PutTaskConfigs, now_ms
from fencepost.cluster.errors import NotLeadingError, NotReadyError, RequestTimeoutError
from fencepost.cluster.session_key import RequestVerifier, for_caller
from fencepost.config.raw import RawConfig
from fencepost.worker.membership.membership import Membership
from fencepost.worker.operation.request import Requests
from fencepost.worker.progress import Progress
from fencepost.worker.settings import WorkerSettings


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
