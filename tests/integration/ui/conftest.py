"""One worker with roles, some connectors, and one browser, for all tests of the directory."""

import uuid
from collections.abc import Iterator

import httpx
import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.testing.source import PLUGIN_PATH
from support.browser import Browser, running_browser
from support.cluster import Cluster
from support.shared import shared
from support.ui_scene import ROLES, USERS, Scene, fill


@shared
def scene(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("ui")
    (directory / "users").write_text("".join(f"{user}=of {user}\n" for user in USERS))
    (directory / "roles").write_text(ROLES)
    protected = {"rest.basic.users.file": directory / "users", "rest.roles.file": directory / "roles"}
    group = f"ui-{uuid.uuid4().hex[:6]}"
    with Cluster(kafka.bootstrap_servers, directory, group, 1, plugin_path=PLUGIN_PATH) as cluster:
        (worker,) = cluster.workers
        worker.properties |= {key: str(path) for key, path in protected.items()} | {
            "delete.committed.enabled": "true",
            "delete.committed.topics": "orders",
        }
        worker.rest = httpx.Client(base_url=f"http://127.0.0.1:{worker.port}", timeout=100, auth=("ada", "of ada"))
        cluster.start()
        fill(worker, kafka.bootstrap_servers, directory)
        yield Scene(worker, directory)


@shared
def _browser(scene: Scene) -> Iterator[Browser]:
    with running_browser(f"http://127.0.0.1:{scene.worker.port}") as found:
        yield found


@pytest.fixture
def browser(_browser: Browser) -> Iterator[Browser]:
    """The browser of somebody who may do everything; afterwards no page has done anything that its policy forbids."""
    _browser.be("ada", "of ada")
    _browser.go_dark(is_dark=False)
    _browser.wrongs.clear()
    yield _browser
    _browser.note()
    assert _browser.wrongs == []
