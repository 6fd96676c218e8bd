"""`/connectors/C/offsets`: where a connector stands, and moving it (KIP-875)."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from fencepost.rest.describe import takes
from fencepost.rest.gateway import Worker
from fencepost.rest.model import ConnectorGapsBody, ConnectorOffsetsBody, MessageBody
from fencepost.rest.offset_body import offsets_body, read_offsets
from fencepost.rest.path import ConnectorName
from fencepost.rest.response import json_response

router = APIRouter(prefix="/connectors/{name}", tags=["offsets"])


@router.get("/offsets", response_model=ConnectorOffsetsBody)
async def get_offsets(name: ConnectorName, worker: Worker) -> Response:
    """Returns the offset of every source partition that has one, in any state of the connector."""
    return json_response(offsets_body(await worker.run(worker.operations.offsets.read, name)))


@router.get("/gaps", response_model=ConnectorGapsBody)
async def get_gaps(name: ConnectorName, worker: Worker) -> Response:
    """Returns what a mirror has left out, where records of its source were gone before it had read them."""
    gaps = await worker.run(worker.operations.offsets.gaps, name)
    return json_response({"gaps": [dict(gap) for gap in gaps]})


@router.patch("/offsets", response_model=MessageBody, openapi_extra=takes(ConnectorOffsetsBody))
async def alter_offsets(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Sets the offsets of the given partitions of a stopped connector; null forgets one."""
    offsets = await read_offsets(request)
    return json_response({"message": await worker.run(worker.operations.offsets.alter, name, offsets)})


@router.delete("/offsets", response_model=MessageBody)
async def reset_offsets(name: ConnectorName, worker: Worker) -> Response:
    """Forgets all offsets of a stopped connector."""
    return json_response({"message": await worker.run(worker.operations.offsets.reset, name)})
