import json
import re

import pytest
from starlette.testclient import TestClient

from fencepost.cluster.info import ConnectorOffset
from fencepost.rest.ui.offset import Move, Offsets, body
from rest.fake import FakeWorker

PAGE = "/ui/connectors/file/offsets"
KNOWN = Offsets.of([{"partition": {"f": "a"}, "offset": {"n": 1}}, {"partition": {"f": "b"}, "offset": {"n": 2}}])


def test_only_changed_offsets_are_moved() -> None:
    fields = {"p.1": '{"f": "a"}', "o.1": '{"n": 7}', "p.2": '{"f":"b"}', "o.2": '{ "n": 2 }', "p.new": "", "o.new": ""}
    assert KNOWN.moves(fields) == [Move('{"f": "a"}', '{"n": 1}', '{"n": 7}')]


def test_an_offset_can_be_forgotten() -> None:
    moves = KNOWN.moves({"p.1": '{"f": "a"}', "o.1": '{"n": 1}', "forget.1": "1"})
    assert body(moves) == {"offsets": [{"partition": {"f": "a"}, "offset": None}]}
    assert [move.after for move in KNOWN.moves({"all": "forget"})] == ["", ""]


def test_partition_or_offset_that_is_not_a_json_object_is_named() -> None:
    (not_json, no_object) = KNOWN.moves({"p.1": "x", "o.1": "{}", "p.2": '{"f": "b"}', "o.2": "7"})
    assert "The partition is not JSON" in not_json.fault
    assert "The offset is not a JSON object" in no_object.fault


def preview(client: TestClient, offset: str) -> dict[str, str]:
    """Return the fields of the page that asks whether it is meant."""
    token = client.cookies["fencepost-form"]
    page = client.post(f"{PAGE}/preview", data={"token": token, "p.1": '{"f": "a"}', "o.1": offset}).text
    assert re.search(r'class="old">\{&#34;n&#34;: 1\}.*class="new">\{&#34;n&#34;: 5\}', page, re.S)
    seen = re.search(r'name="seen" value="(\w+)"', page)
    assert seen is not None
    return {"token": token, "seen": seen[1], "p.1": '{"f": "a"}', "o.1": offset}


def test_offsets_are_moved_after_a_preview(worker: FakeWorker, client: TestClient) -> None:
    worker.offsets["file"] = [ConnectorOffset({"f": "a"}, {"n": 1})]
    fields = preview(client, '{"n": 5}')
    assert worker.offsets["file"] == [ConnectorOffset({"f": "a"}, {"n": 1})]
    assert client.post(PAGE, data=fields).status_code == 200
    assert worker.offsets["file"] == [ConnectorOffset({"f": "a"}, {"n": 5})]


@pytest.mark.parametrize("number", [(1 << 53) + 1, (1 << 63) - 1, -(1 << 63), (1 << 64) + 1, 10**40 + 1])
def test_whole_numbers_keep_all_their_digits(worker: FakeWorker, client: TestClient, number: int) -> None:
    """The worker refuses those of more than 64 bits; until then they are what was typed."""
    worker.offsets["file"] = [ConnectorOffset({"f": "a"}, {"n": number})]
    assert f"<code>{{&#34;n&#34;: {number}}}</code>" in client.get(PAGE).text
    fields = {"token": client.cookies["fencepost-form"], "p.1": '{"f": "a"}', "o.1": json.dumps({"n": number + 1})}
    page = client.post(f"{PAGE}/preview", data=fields).text
    assert f'class="old">{{&#34;n&#34;: {number}}}<' in page
    assert f'class="new">{{&#34;n&#34;: {number + 1}}}<' in page
    seen = re.search(r'name="seen" value="(\w+)"', page)
    assert seen is not None
    client.post(PAGE, data={**fields, "seen": seen[1]})
    assert worker.offsets["file"] == [ConnectorOffset({"f": "a"}, {"n": number + 1})]


def test_offsets_that_have_changed_since_the_preview_are_not_moved(worker: FakeWorker, client: TestClient) -> None:
    worker.offsets["file"] = [ConnectorOffset({"f": "a"}, {"n": 1})]
    fields = preview(client, '{"n": 5}')
    worker.offsets["file"] = [ConnectorOffset({"f": "a"}, {"n": 3})]
    answer = client.post(PAGE, data=fields)
    assert (answer.status_code, "changed since the preview" in answer.text) == (400, True)
    assert worker.offsets["file"] == [ConnectorOffset({"f": "a"}, {"n": 3})]
