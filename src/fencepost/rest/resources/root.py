"""`/`, `/health`, `/kafka` and `/metrics`: what a load balancer and a dashboard ask."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from fencepost.cluster.info import Health, HealthStatus, KafkaInfo, ServerInfo
from fencepost.rest.describe import also
from fencepost.rest.gateway import Worker
from fencepost.rest.response import json_response

router = APIRouter(tags=["worker"])

_Live = Annotated[
    str | None, Query(description="`/health?live` answers 200 whatever Kafka and Spark do: for probes of liveness.")
]
_HEALTH_CODES = {HealthStatus.HEALTHY: 200, HealthStatus.STARTING: 503, HealthStatus.UNHEALTHY: 500}


@router.get("/", response_model=ServerInfo)
async def get_server_info(worker: Worker) -> Response:
    """Version of the worker and id of its Kafka cluster."""
    return json_response(worker.local.server_info())


@router.get("/kafka", response_model=KafkaInfo)
async def get_kafka(worker: Worker) -> Response:
    """Says where the worker's Kafka is, for tools that read it; without credentials."""
    return json_response(worker.local.kafka())


@router.get(
    "/health",
    response_model=Health,
    responses=also(503, Health, "Still starting") | also(500, Health, "Does not answer"),
)
async def get_health(worker: Worker, live: _Live = None) -> Response:
    """Says whether the worker is ready: it handles requests (KIP-1017), and Spark can run tasks."""
    if live is not None:
        return json_response(Health(HealthStatus.HEALTHY, "Worker answers."))
    health = await worker.probe(worker.operations.probes.health)
    return json_response(health, _HEALTH_CODES[health.status])


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def get_metrics(worker: Worker) -> Response:
    """Metrics in the text format of Prometheus."""
    text = await worker.probe(worker.operations.probes.metrics)
    return Response(text, media_type="text/plain; version=0.0.4")
