import json
import re
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from fencepost.cluster import info, topic_records
from fencepost.rest import model
from fencepost.rest.access.need import NEEDS


@pytest.mark.parametrize(
    ("method", "path", "body", "described"),
    [
        ("GET", "/", None, info.ServerInfo),
        ("GET", "/health", None, info.Health),
        ("GET", "/connectors", None, list[str]),
        ("GET", "/connectors?expand=status&expand=info", None, dict[str, model.ExpandedBody]),
        ("GET", "/connectors/file", None, info.ConnectorInfo),
        ("GET", "/connectors/file/config", None, model.ConfigMap),
        ("GET", "/connectors/file/status", None, info.ConnectorStatus),
        ("GET", "/connectors/file/tasks", None, list[info.TaskInfo]),
        ("GET", "/connectors/file/tasks/0/status", None, info.TaskState),
        ("GET", "/connectors/file/topics", None, dict[str, model.TopicsBody]),
        ("GET", "/connectors/file/offsets", None, model.ConnectorOffsetsBody),
        ("GET", "/connectors/file/gaps", None, model.ConnectorGapsBody),
        ("DELETE", "/connectors/file/offsets", None, model.MessageBody),
        ("GET", "/connectors/file/dead-letters", None, topic_records.LetterPage),
        ("GET", "/connectors/file/dead-letters/resend", None, topic_records.ResendProgressInfo),
        ("POST", "/connectors/file/dead-letters/resend", None, topic_records.ResendProgressInfo),
        ("POST", "/connectors/file/restart?includeTasks=true", None, info.ConnectorStatus),
        ("PUT", "/connectors/new/config", {"connector.class": "X"}, info.ConnectorInfo),
        ("PATCH", "/connectors/file/config", {"a": "b"}, info.ConnectorInfo),
        ("GET", "/connector-plugins?connectorsOnly=false", None, list[info.PluginInfo]),
        ("GET", "/connector-plugins/FileStreamSink/config", None, list[info.KeyDefinition]),
        ("PUT", "/connector-plugins/X/config/validate", {"connector.class": "X"}, info.ValidationReport),
        ("GET", "/admin/loggers", None, dict[str, model.LoggerBody]),
        ("GET", "/retention", None, info.RetentionInfo),
        ("GET", "/retention/t", None, info.TopicRetentionInfo),
        ("GET", "/nonsense", None, model.ErrorBody),
    ],
)
def test_answers_match_the_schemas_of_the_openapi_document(
    client: TestClient, method: str, path: str, body: object, described: Any
) -> None:
    answer = client.request(method, path, json=body) if body else client.request(method, path)
    schema = TypeAdapter(described).json_schema(mode="serialization")
    OAS31Validator(_closed(schema)).validate(answer.json())


def _closed(schema: Any) -> Any:
    """Return a schema that refuses keys that it does not name."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(each) for key, each in schema.items()}
    return {**closed, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else closed


def test_the_document_names_every_operation_and_says_which_are_between_workers(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operations = {(method, path): one for path, item in document["paths"].items() for method, one in item.items()}
    shown = {route for route in NEEDS if not route.split()[1].startswith(("/ui", "/docs", "/openapi.json"))}
    assert {f"{method.upper()} {path}" for method, path in operations} == shown
    internal = {
        ("post", "/connectors/{name}/tasks"),
        ("put", "/connectors/{name}/fence"),
        ("get", "/internal/figures"),
        ("get", "/internal/past"),
        ("get", "/internal/logs"),
    }
    assert {key for key, one in operations.items() if one["tags"] == ["between workers"]} == internal
    responses = [one["responses"] for one in operations.values()]
    assert all("default" in codes and "422" not in codes for codes in responses)


def test_the_document_is_valid_and_its_references_lead_somewhere(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    OpenAPIV31SpecValidator(document).validate()
    references = re.findall(r'"\$ref": *"([^"]*)"', json.dumps(document))
    assert references
    for reference in references:
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            assert step in place, reference
            place = place[step]


def test_a_method_that_is_not_allowed_is_answered_with_all_that_are(client: TestClient) -> None:
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        answer = client.options(path.replace("{task}", "0"))
        assert answer.status_code == 405, path
        allowed = set(answer.headers["allow"].lower().split(", "))
        assert allowed - {"head"} == set(operations), path
        assert ("head" in allowed) == ("get" in operations)


def test_the_docs_page_lists_the_operations_and_needs_nothing_from_elsewhere(client: TestClient) -> None:
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "<b>POST</b> /connectors/{name}/restart?includeTasks=&amp;onlyFailed=" in answer.text
    assert not re.search(r"https?://|<script|<link|<img", answer.text)
