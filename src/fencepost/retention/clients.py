"""The clients with which the leader's retention asks Kafka."""

from collections.abc import Mapping
from typing import Any

from fencepost.config import ConfigError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.group.group_survey import GroupSurvey

REFUSED = (KafkaUnavailableError, KafkaAuthorizationError, KafkaRequestError, ConfigError)


class RetentionClients:
    """Creates clients when they are needed first, and counts requests. One thread at a time."""

    def __init__(self, conf: Mapping[str, Any], timeout_s: float = 30.0) -> None:
        self.conf = dict(conf)
        self._timeout_s = timeout_s
        self._admin: Admin | None = None
        self._surveys: dict[tuple[tuple[str, str], ...], GroupSurvey] = {}
        self._questions = 0  # requests to `_admin`, so far

    def admin(self) -> Admin:
        """Return the client for one request."""
        self._questions += 1
        self._admin = self._admin or Admin(self.conf, timeout_s=self._timeout_s)
        return self._admin

    def survey(self, conf: Mapping[str, Any]) -> GroupSurvey:
        """Return the client that asks about groups with this principal."""
        key = conf_key(conf)
        if key not in self._surveys:
            self._surveys[key] = GroupSurvey(conf, timeout_s=self._timeout_s)
        return self._surveys[key]

    def requests(self) -> int:
        """Return how many requests were made so far."""
        return self._questions + sum(survey.requests for survey in self._surveys.values())

    def close(self) -> None:
        """Close all; those that are needed later connect again."""
        for survey in self._surveys.values():
            survey.close()
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


def conf_key(conf: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in conf.items()))
