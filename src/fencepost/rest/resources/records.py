"""Records of topics and dead letters, logs and lineage: what is seen of connectors in addition to their states."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.cluster.errors import BadRequestError, NotFoundError
from fencepost.cluster.figures import LogEvents, LogQuery
from fencepost.cluster.info import Lineage
from fencepost.cluster.topic_records import (
    LetterPage,
    LetterQuery,
    RecordPage,
    RecordQuery,
    ResendProgressInfo,
    ResendRequest,
    TopicEntry,
)
from fencepost.rest.access.need import Asking
from fencepost.rest.body import json_object, parse_json, read_body, refuse_shape, refuse_unknown
from fencepost.rest.gateway import Worker
from fencepost.rest.model import ResendBody, takes
from fencepost.rest.path import ConnectorName, PathText
from fencepost.rest.response import json_response
from fencepost.telemetry.loggers import LEVELS

dead_letters = APIRouter(prefix="/connectors/{name}/dead-letters", tags=["dead letters"])

_Letters = Annotated[int, Query(ge=1, le=50, description="How many at most.")]
_Before = Annotated[str | None, Query(description="The `older` of an earlier answer; without it, the newest.")]


@dead_letters.get("", response_model=LetterPage)
async def get_dead_letters(
    name: ConnectorName, worker: Worker, limit: _Letters = 20, before: _Before = None
) -> Response:
    """Returns dead letters that name the connector, the newest first, with the beginnings of their contents."""
    query = LetterQuery(limit, before)
    return json_response(await worker.read(worker.operations.connectors.dead_letters.read, name, query))


@dead_letters.get("/resend", response_model=ResendProgressInfo)
async def get_resend(name: ConnectorName, worker: Worker) -> Response:
    """Says how far the last resend of the connector is, or how it has ended."""
    return json_response(await worker.run(worker.operations.connectors.dead_letters.progress, name))


@dead_letters.post("/resend", status_code=202, response_model=ResendProgressInfo, openapi_extra=takes(ResendBody))
async def resend(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Begins to resend a sink's dead letters, each once, in transactions; 409 while one of the connector is running."""
    wanted = _wanted(parse_json(await read_body(request)))
    return json_response(await worker.run(worker.operations.connectors.dead_letters.resend, name, wanted), 202)


def _wanted(value: object) -> ResendRequest:
    fields = json_object({} if value is None else value, "ResendRequest")
    refuse_unknown(fields, "ResendRequest", ("letters", "skip"))
    letters, skip = (_names(fields.get(key)) for key in ("letters", "skip"))
    if letters == []:
        raise BadRequestError("letters: name at least one dead letter, or leave it out to resend all that wait")
    return ResendRequest(letters, skip or ())


def _names(value: object) -> list[str] | None:
    if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        refuse_shape(value, "List<String>")
    return value


observation = APIRouter(tags=["observation"])

_Task = Annotated[int | None, Query(ge=0, description="Only events of this task.")]
_Level = Annotated[str, Query(description="Only events of this level or a higher one, such as WARNING.")]
_After = Annotated[str | None, Query(description="The cursor of an earlier answer; without it, the newest events.")]
_WaitMs = Annotated[int, Query(ge=0, le=30_000, description="How long to wait for the first event.")]
_Events = Annotated[int, Query(ge=1, le=1000, description="How many events at most.")]


@observation.get("/connectors/{name}/logs", response_model=LogEvents)
async def get_logs(
    name: ConnectorName,
    worker: Worker,
    task: _Task = None,
    level: _Level = "ALL",
    after: _After = None,
    wait_ms: _WaitMs = 0,
    limit: _Events = 500,
) -> Response:
    """Returns log events of a connector and its tasks, from all workers' memory, the oldest first."""
    if level.upper() not in LEVELS:
        raise BadRequestError(f"level: {level} is none of {', '.join(LEVELS)}")
    query = LogQuery(task, LEVELS[level.upper()], after, wait_ms, limit)
    logs = worker.operations.probes.logs
    if wait_ms and worker.follow.has_room:
        return json_response(await worker.follow(logs, name, query))
    return json_response(await worker.look(logs, name, replace(query, wait_ms=0)))


@observation.get("/lineage", response_model=list[Lineage])
async def list_lineage(worker: Worker, caller: Asking) -> Response:
    """Says of each connector that the caller may view what it reads and writes."""
    names = caller.visible(worker.local.connector_names())
    return json_response(list(worker.local.lineage(names)))


@observation.get("/connectors/{name}/lineage", response_model=Lineage)
async def get_lineage(name: ConnectorName, worker: Worker) -> Response:
    """Says what a connector reads and writes: topics, or something outside of Kafka."""
    found = worker.local.lineage([name])
    if not found:
        raise NotFoundError(f"Connector {name} not found")
    return json_response(found[0])


topics = APIRouter(tags=["topics"])

_From = Annotated[
    str,
    Query(
        alias="from",
        description="earliest: the first records; latest: the last ones; an offset; a time in ISO 8601; or the `next` "
        "of an earlier answer.",
    ),
]
_Records = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
_Partition = Annotated[int | None, Query(ge=0, description="Only records of this partition.")]


@topics.get("/topics", response_model=list[TopicEntry])
async def list_topics(worker: Worker) -> Response:
    """Returns the topics of the workers' Kafka, without those that are the workers' or Kafka's own."""
    return json_response(await worker.run(worker.operations.cluster.topics.topics))


@topics.get("/topics/{topic}/records", response_model=RecordPage)
async def get_records(
    topic: PathText, worker: Worker, start: _From = "latest", limit: _Records = 10, partition: _Partition = None
) -> Response:
    """Returns committed records, read with the workers' own rights and the converters of their file."""
    query = RecordQuery(start, limit, partition)
    return json_response(await worker.read(worker.operations.cluster.topics.records, topic, query))


@topics.get("/connectors/{name}/topics/{topic}/records", response_model=RecordPage)
async def get_connector_records(
    name: ConnectorName,
    topic: PathText,
    worker: Worker,
    start: _From = "latest",
    limit: _Records = 10,
    partition: _Partition = None,
) -> Response:
    """Returns committed records of a topic that the connector reads or writes, with its rights and converters."""
    query = RecordQuery(start, limit, partition)
    return json_response(await worker.read(worker.operations.cluster.topics.records_of, name, topic, query))
