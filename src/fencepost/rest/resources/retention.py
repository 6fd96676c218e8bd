"""`/retention`: topics that sinks' commits empty (KIP-762)."""

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.errors import NotFoundError
from fencepost.cluster.info import RetentionInfo, TopicRetentionInfo
from fencepost.rest.gateway import Worker
from fencepost.rest.path import PathText
from fencepost.rest.query import Dry
from fencepost.rest.response import json_response

router = APIRouter(prefix="/retention", tags=["retention"])


@router.get("", response_model=RetentionInfo)
async def get_retention(worker: Worker, dry: Dry = False) -> Response:
    """Says of each topic up to where it was emptied, or why not; with dry=true what would be done now."""
    return json_response(await worker.run(worker.operations.cluster.retention, is_preview=dry))


@router.get("/{topic}", response_model=TopicRetentionInfo)
async def get_topic_retention(topic: PathText, worker: Worker, dry: Dry = False) -> Response:
    """Says it of one topic."""
    info = await worker.run(worker.operations.cluster.retention, is_preview=dry)
    found = next((each for each in info.topics if each.topic == topic), None)
    if found is None:
        raise NotFoundError(
            f"There is no decision for topic {topic}: no pattern of delete.committed.topics matches it, the topic "
            "does not exist, or the first decision is still to come (dry=true decides now)"
        )
    return json_response(found)
