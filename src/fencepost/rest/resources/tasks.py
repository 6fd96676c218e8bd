"""`/connectors/C/tasks` and `/connectors/C/topics`: what a connector's tasks are and do."""

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.info import TaskInfo, TaskState
from fencepost.rest.gateway import Worker
from fencepost.rest.model import TopicsBody
from fencepost.rest.path import ConnectorName, TaskNumber
from fencepost.rest.response import empty_response, json_response

router = APIRouter(prefix="/connectors/{name}", tags=["tasks"])


@router.get("/tasks", response_model=list[TaskInfo])
async def list_tasks(name: ConnectorName, worker: Worker) -> Response:
    """Tasks of a connector with their configs."""
    tasks = await worker.run(worker.operations.tasks.configs, name)
    return json_response(list(tasks))


@router.get("/tasks/{task}/status", response_model=TaskState)
async def get_task_status(name: ConnectorName, task: TaskNumber, worker: Worker) -> Response:
    """State of one task."""
    return json_response(worker.local.task_status(name, task))


@router.post("/tasks/{task}/restart", status_code=204)
async def restart_task(name: ConnectorName, task: TaskNumber, worker: Worker) -> Response:
    """Restarts one task."""
    await worker.run(worker.operations.tasks.restart, name, task)
    return empty_response(204)


@router.get("/topics", response_model=dict[str, TopicsBody])
async def list_topics(name: ConnectorName, worker: Worker) -> Response:
    """Topics that the connector has used since its topics were last reset (KIP-558)."""
    return json_response({name: {"topics": list(worker.local.active_topics(name))}})


@router.put("/topics/reset", status_code=202, response_class=Response)
async def reset_topics(name: ConnectorName, worker: Worker) -> Response:
    """Forgets which topics the connector has used."""
    await worker.run(worker.operations.tasks.reset_active_topics, name)
    return empty_response(202)
