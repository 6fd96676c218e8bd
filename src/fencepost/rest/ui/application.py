"""The pages as a part of the REST application."""

from fastapi import APIRouter, FastAPI

from fencepost.rest.ui.inside import RestRefusedError, refusal_answer
from fencepost.rest.ui.resources import (
    action,
    assets,
    config,
    connector,
    dead_letters,
    lineage,
    logs,
    offset,
    overview,
    topic,
    workers,
)
from fencepost.rest.ui.watch import Watch

PAGES: tuple[APIRouter, ...] = tuple(
    one.router
    for one in (overview, connector, action, config, offset, logs, dead_letters, topic, lineage, workers, assets)
)


def add_pages(app: FastAPI) -> None:
    """Give an application what handlers of pages need; its routes are `PAGES`."""
    app.state.watch = Watch()
    app.add_exception_handler(RestRefusedError, refusal_answer)
