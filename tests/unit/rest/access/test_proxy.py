"""Whose address counts: that of the client, as proxies that are trusted say."""

from ipaddress import ip_network

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from fencepost.config import ConfigError
from fencepost.config.rest import RestAccessConfig
from fencepost.rest.access.origin import TrustedProxies, network_of

PROXIES = [ip_network("10.0.0.0/24"), ip_network("192.0.2.7")]


async def show_address(scope: Scope, receive: Receive, send: Send) -> None:
    client = Request(scope).client
    await PlainTextResponse("" if client is None else client.host)(scope, receive, send)


@pytest.mark.parametrize(
    ("called_from", "said", "address"),
    [
        ("10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("::ffff:10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("10.0.0.1", "198.51.100.1, 203.0.113.5", "203.0.113.5"),  # the first one is what the client says
        ("10.0.0.1", "203.0.113.5, 192.0.2.7", "203.0.113.5"),  # two proxies, one after the other
        ("10.0.0.1", "10.0.0.9", "10.0.0.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # not from a proxy
        ("10.0.0.1", "x\x1b[2J user=root", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
    ],
)
def test_client_address_is_taken_from_a_trusted_proxy_only(called_from: str, said: str, address: str) -> None:
    client = TestClient(TrustedProxies(show_address, PROXIES), client=(called_from, 1234))
    assert client.get("/", headers={"x-forwarded-for": said.encode("latin-1")}).text == address


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("testclient", "testclient", True),
    ],
)
def test_addresses_of_one_ipv6_network_are_one_client(one: str, other: str, is_same: bool) -> None:
    assert (network_of(one) == network_of(other)) == is_same


def test_proxies_that_are_no_addresses_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"rest\.trusted\.proxies.*10\.0\.0\.0/24"):
        RestAccessConfig({"rest.trusted.proxies": "10.0.0.0/24,proxy.example"})
