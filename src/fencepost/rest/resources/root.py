"""`/`, `/health` and `/metrics`: what a load balancer and a dashboard ask."""

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.info import HealthStatus
from fencepost.rest.describe import also
from fencepost.rest.gateway import Worker
from fencepost.rest.model import HealthBody, ServerInfoBody
from fencepost.rest.response import json_response

router = APIRouter(tags=["worker"])

_HEALTH_CODES = {HealthStatus.HEALTHY: 200, HealthStatus.STARTING: 503, HealthStatus.UNHEALTHY: 500}


@router.get("/", response_model=ServerInfoBody)
async def get_server_info(worker: Worker) -> Response:
    """Version of the worker and id of its Kafka cluster."""
    info = worker.local.server_info()
    return json_response({"version": info.version, "commit": info.commit, "kafka_cluster_id": info.kafka_cluster_id})


@router.get(
    "/health",
    response_model=HealthBody,
    responses=also(503, HealthBody, "Still starting") | also(500, HealthBody, "Does not answer"),
)
async def get_health(worker: Worker) -> Response:
    """Says whether the worker is ready to handle requests (KIP-1017)."""
    health = await worker.probe(worker.operations.probes.health)
    body = {"status": health.status.value, "message": health.message}
    return json_response(body, _HEALTH_CODES[health.status])


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def get_metrics(worker: Worker) -> Response:
    """Metrics in the text format of Prometheus."""
    text = await worker.probe(worker.operations.probes.metrics)
    return Response(text, media_type="text/plain; version=0.0.4")
