"""No worker shows its own topics as a connector's dead letters, nor resends them."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.topic_records import LetterQuery, ResendRequest
from fencepost.config.worker import WorkerConfig
from fencepost.worker.operation.connector.dead_letters import DeadLetters
from fencepost.worker.settings import WorkerSettings
from support.settings import SETTINGS

DEAD = "errors.deadletterqueue.topic.name"
SINK = {"name": "c", "connector.class": "FileStreamSink", "topics": "t"}


@pytest.mark.parametrize("topic", ["connect-configs", "__consumer_offsets"])
@pytest.mark.parametrize("servers", [{}, {"producer.override.bootstrap.servers": "an-alias:9"}])
def test_letters_are_not_read_when_their_topic_turns_out_to_be_the_workers(topic: str, servers: dict[str, str]) -> None:
    requests: Any = SimpleNamespace(
        known=lambda name: SimpleNamespace(connectors={name: {**SINK, **servers, DEAD: topic}}),
        asking=lambda stage: nullcontext(),
        ensure_leading=lambda: None,
    )
    resends: Any = None
    letters = DeadLetters(requests, WorkerSettings(WorkerConfig(SETTINGS), "http://w:1", "me"), resends)
    for act in (lambda: letters.read("c", LetterQuery()), lambda: letters.resend("c", ResendRequest())):
        with pytest.raises(BadRequestError, match=f"Invalid value {topic} for configuration {DEAD}"):
            act()
