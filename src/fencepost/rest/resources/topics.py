"""`/topics` and records of topics, also as a connector sees them."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from fencepost.cluster.topic_records import RecordPage, RecordQuery, TopicEntry
from fencepost.rest.gateway import Worker
from fencepost.rest.path import ConnectorName, PathText
from fencepost.rest.response import json_response

router = APIRouter(tags=["topics"])

_From = Annotated[
    str,
    Query(
        alias="from",
        description="earliest: the first records; latest: the last ones; an offset; a time in ISO 8601; or the `next` "
        "of an earlier answer.",
    ),
]
_Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
_Partition = Annotated[int | None, Query(ge=0, description="Only records of this partition.")]


@router.get("/topics", response_model=list[TopicEntry])
async def list_topics(worker: Worker) -> Response:
    """Returns the topics of the workers' Kafka, without those that are the workers' or Kafka's own."""
    return json_response(await worker.run(worker.operations.cluster.topics.topics))


@router.get("/topics/{topic}/records", response_model=RecordPage)
async def get_records(
    topic: PathText, worker: Worker, start: _From = "latest", limit: _Limit = 10, partition: _Partition = None
) -> Response:
    """Returns committed records, read with the workers' own rights and the converters of their file."""
    query = RecordQuery(start, limit, partition)
    return json_response(await worker.read_letters(worker.operations.cluster.topics.records, topic, query))


@router.get("/connectors/{name}/topics/{topic}/records", response_model=RecordPage)
async def get_connector_records(
    name: ConnectorName,
    topic: PathText,
    worker: Worker,
    start: _From = "latest",
    limit: _Limit = 10,
    partition: _Partition = None,
) -> Response:
    """Returns committed records of a topic that the connector reads or writes, with its rights and converters."""
    query = RecordQuery(start, limit, partition)
    return json_response(await worker.read_letters(worker.operations.cluster.topics.records_of, name, topic, query))
