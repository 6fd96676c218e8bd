import logging
import re

import pytest
from starlette.testclient import TestClient

LINE = re.compile(
    r'testclient - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] "(?P<request>.*)" (?P<status>\d+) (?P<bytes>\d+) '
    r'"(?P<referer>.*)" "(?P<agent>.*)" \d+'
)


@pytest.mark.parametrize(
    ("path", "request_line", "status"),
    [
        ("/connectors?expand=info", "GET /connectors?expand=info HTTP/1.1", "200"),
        ("/connectors/a%2Fb%0Ac/status", "GET /connectors/a%2Fb%0Ac/status HTTP/1.1", "404"),
    ],
)
def test_each_request_gets_a_line(
    client: TestClient, caplog: pytest.LogCaptureFixture, path: str, request_line: str, status: str
) -> None:
    with caplog.at_level(logging.INFO, "fencepost.rest.access"):
        answer = client.get(path, headers={"user-agent": 'odd "agent"'})
    lines = [record.getMessage() for record in caplog.records if record.name == "fencepost.rest.access"]
    match = LINE.fullmatch(lines[0])
    assert match is not None, lines
    assert match["request"] == request_line
    assert match["status"] == status
    assert int(match["bytes"]) == len(answer.content)
    assert (match["referer"], match["agent"]) == ("-", 'odd \\"agent\\"')


def test_control_characters_of_a_caller_are_escaped(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fencepost.rest.access"):
        client.get("/", headers={"user-agent": "a\x1b[2J\x07b", "referer": "\x1b[1m"})
    [line] = [record.getMessage() for record in caplog.records if record.name == "fencepost.rest.access"]
    assert '"\\x1b[1m" "a\\x1b[2J\\x07b"' in line
    assert line.isprintable()


def test_request_is_not_logged_when_the_access_logger_is_quiet(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fencepost.rest.access"):
        client.get("/")
    assert not [record for record in caplog.records if record.name == "fencepost.rest.access"]
