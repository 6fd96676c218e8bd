import asyncio
import html
import re
from collections.abc import Collection
from typing import Any

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.errors import NotFoundError
from fencepost.cluster.figures import ConnectorFigures, Delivery, TaskFigures
from fencepost.rest.resources import connectors
from fencepost.rest.ui import overview as page
from fencepost.rest.ui.overview import Recent, Row, Wanted, selected
from rest.fake import FakeConnector, FakePlugins, FakeWorker


def row(name: str, state: str = "RUNNING", **figures: float | None) -> Row:
    return Row(name, "source", "Class", state, 1, 1, "", Recent(**figures))


def names(found: list[Row]) -> list[str]:
    return [one.name for one in found]


def test_rows_without_a_value_are_sorted_last() -> None:
    found = [row("a", rate=1), row("b"), row("c", rate=5)]
    assert names(selected(found, Wanted(sort="rate", is_descending=True))) == ["c", "a", "b"]
    assert names(selected(found, Wanted(sort="rate"))) == ["a", "c", "b"]
    assert names(selected(found, Wanted(is_descending=True))) == ["c", "b", "a"]


def test_the_oldest_last_record_comes_last_if_ages_grow() -> None:
    found = [row("old", last_record_ms=1_000), row("new", last_record_ms=9_000), row("never")]
    assert names(selected(found, Wanted(sort="age"))) == ["new", "old", "never"]


def test_the_worst_state_comes_first() -> None:
    found = [row("a"), row("b", "PAUSED"), row("c", "FAILED")]
    assert names(selected(found, Wanted(sort="state"))) == ["c", "b", "a"]


def test_rows_are_filtered_by_text_and_state() -> None:
    found = [row("Orders"), row("orders-2", "FAILED"), row("x")]
    assert names(selected(found, Wanted("ORDERS"))) == ["Orders", "orders-2"]
    assert names(selected(found, Wanted("orders", "FAILED"))) == ["orders-2"]


def test_a_column_that_is_sorted_by_already_is_reversed() -> None:
    assert Wanted(sort="lag", is_descending=True).query("lag") == {"sort": "lag"}
    assert Wanted(sort="lag").query("lag") == {"sort": "-lag"}
    assert Wanted("o").query("rate") == {"q": "o", "sort": "-rate"}
    assert Wanted(sort="name").query("name") == {"sort": "-name"}


def test_unchanged_list_is_not_sent_again(worker: FakeWorker, client: TestClient) -> None:
    first = [client.get("/ui/rows") for _ in range(4)][-1]  # rates are known by now
    found = re.search(r'hx-get="(/ui/rows\?seen=[0-9a-f]+)"', first.text)
    assert found is not None
    assert client.get(found[1]).status_code == 204
    worker.connectors["file"].state = "PAUSED"
    again = client.get(found[1])
    assert again.status_code == 200
    assert "Paused" in again.text


def with_connectors(worker: FakeWorker, count: int) -> None:
    for n in range(count):
        worker.connectors[f"order{n:03}"] = FakeConnector({"connector.class": "FileStreamSource"})


def names_on(page: str) -> list[str]:
    return re.findall(r"<bdi>(order\d+)</bdi>", page)


def test_a_long_list_has_pages(worker: FakeWorker, client: TestClient) -> None:
    with_connectors(worker, 450)
    first = client.get("/ui?q=order&sort=-name").text
    assert names_on(first) == [f"order{n:03}" for n in range(449, 249, -1)]
    following = re.search(r'id="next" href="([^"]+)"', first)
    assert following is not None
    second = client.get(html.unescape(following[1])).text
    assert names_on(second) == [f"order{n:03}" for n in range(249, 49, -1)]
    assert "Page 2 of 3, 450 connectors" in second
    assert len(names_on(client.get("/ui?q=order&page=3").text)) == 50
    assert names_on(client.get("/ui?q=order&page=99").text) == names_on(client.get("/ui?q=order&page=3").text)
    for none in ("0", "-1", "x", "9" * 9):
        assert names_on(client.get(f"/ui?q=order&page={none}").text)[:1] == ["order000"]


def test_refresh_of_a_list_keeps_its_page(worker: FakeWorker, client: TestClient) -> None:
    with_connectors(worker, 250)
    found = re.search(r'hx-get="(/ui/rows\?[^"]+)"', client.get("/ui?q=order&page=2").text)
    assert found is not None
    path = html.unescape(found[1])
    again = client.get(re.sub("seen=[0-9a-f]+", "seen=0", path))
    assert names_on(again.text) == [f"order{n:03}" for n in range(200, 250)]


def test_totals_count_the_connectors_of_all_pages(worker: FakeWorker, client: TestClient) -> None:
    with_connectors(worker, 250)
    first = [client.get("/ui").text for _ in range(4)][-1]  # rates are known by now
    assert re.search(r"<strong>251</strong> running", first)
    found = re.search(r'hx-get="(/ui/rows\?[^"]+)"', first)
    assert found is not None
    path = html.unescape(found[1])
    assert client.get(path).status_code == 204
    worker.connectors["order240"].state = "PAUSED"  # on the second page
    assert client.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/ui", "/ui?sort=rate", "/connectors?expand=status"])
def test_calls_that_grow_with_the_connectors_do_not_run_on_the_event_loop(
    worker: FakeWorker, client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    where: dict[str, bool] = {}

    def noted(name: str, inner: Any) -> Any:
        def call(*args: Any) -> Any:
            try:
                asyncio.get_running_loop()
                where[name] = True
            except RuntimeError:
                where[name] = False
            return inner(*args)

        return call

    for module, name in ((page, "rows"), (page, "selected"), (connectors, "_expanded")):
        monkeypatch.setattr(module, name, noted(name, getattr(module, name)))
    assert client.get(path).status_code == 200
    assert where.keys() >= {"_expanded"}
    assert True not in where.values()


def test_a_failed_task_is_seen_in_the_list(worker: FakeWorker, client: TestClient) -> None:
    worker.connectors["bad"] = FakeConnector({"connector.class": "x.y.Z"}, state="FAILED", trace="Boom\n  at x")
    page = client.get("/ui").text
    assert re.search(r'<span class="badge bad">Failed</span>', page)
    assert "Boom" in page
    assert "at x" not in page


def test_a_connector_that_was_just_created_has_a_page(worker: FakeWorker, client: TestClient, monkeypatch: Any) -> None:
    def unknown(name: str) -> None:
        raise NotFoundError(f"No status found for connector {name}")

    monkeypatch.setattr(worker, "connector_status", unknown)
    answer = client.get("/ui/connectors/file")
    assert answer.status_code == 200
    assert "Unassigned" in answer.text


def test_reason_of_a_failure_is_above_its_trace(worker: FakeWorker, client: TestClient) -> None:
    trace = "Traceback (most recent call last):\n  File x\nValueError: no such table"
    worker.connectors["bad"] = FakeConnector({"connector.class": "x.y.Z"}, state="FAILED", trace=trace)
    page = client.get("/ui/connectors/bad").text
    assert 0 < page.index("ValueError: no such table</p>") < page.index("Traceback (most")
    assert ">ValueError: no such table<" in client.get("/ui").text


def test_tiles_of_new_connectors_are_grouped_by_kind(
    worker: FakeWorker, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In REST a stream is a sink, and a mirror a source or sink: as in Kafka Connect."""
    kinds = {"FileStreamSink": "stream", "FileStreamSource": "mirror"}
    monkeypatch.setattr(FakePlugins, "kinds", lambda _: kinds)
    page = client.get("/ui/new").text.replace("<wbr>", "")
    sections = dict(re.findall(r'<h2 id="(\w+)">.*?(<ul.*?</ul>)', page, re.DOTALL))
    found = {kind: re.findall(r"<strong>(\w+)</strong>", section) for kind, section in sections.items()}
    assert found == {"source": [], "sink": [], "stream": ["FileStreamSink"], "mirror": ["FileStreamSource"]}


def test_pages_show_that_a_task_retries_and_how_often_records_arrive(
    worker: FakeWorker, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = Delivery(False, "it is off", "add the line")

    def figures(_: FakeWorker, connectors: Collection[str]) -> dict[str, ConnectorFigures]:
        tasks = [TaskFigures(0, kind="source", retrying=True)]
        return {name: ConnectorFigures(tasks, "stream", delivery) for name in connectors}

    monkeypatch.setattr(FakeWorker, "figures", figures)
    listed, one = client.get("/ui").text, client.get("/ui/connectors/file").text
    for shown in (listed, one):
        assert ">Retrying</span>" in shown
        assert "at least once" in shown
    assert "stream · at least once · FileStreamSource" in listed
    assert "it is off; add the line" in one


def test_deletion_page_names_the_replication_slot_that_stays(worker: FakeWorker, client: TestClient) -> None:
    postgres = "io.debezium.connector.postgresql.PostgresConnector"
    worker.connectors["cdc"] = FakeConnector({"connector.class": postgres, "slot.name": "orders_cdc"})
    assert "pg_drop_replication_slot" in client.get("/ui/connectors/cdc/delete").text
    assert "slot" not in client.get("/ui/connectors/file/delete").text
