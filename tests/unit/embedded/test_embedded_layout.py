"""What is written into a node's directory, and where it listens."""

import socket
from pathlib import Path

import pytest

from fencepost.embedded.broker import EmbeddedKafka
from fencepost.embedded.error import EmbeddedKafkaError, PortInUseError
from fencepost.embedded.layout import NodeDirectory, Ports, choose_ports, controller_settings, render, server_settings
from support.worker import reserved_port


def test_every_listener_of_embedded_kafka_is_on_the_loopback_interface() -> None:
    settings = server_settings(Path("/d"), Ports(1, 2, 3), {})
    addresses = settings["listeners"].split(",") + settings["advertised.listeners"].split(",")
    assert {address.split("://")[1].split(":")[0] for address in addresses} == {"127.0.0.1"}


def test_callers_properties_override_embedded_kafka_defaults() -> None:
    settings = server_settings(Path("/d"), Ports(1, 2, 3), {"num.partitions": "7", "log.cleaner.threads": "2"})
    assert settings["num.partitions"] == "7"
    assert settings["log.cleaner.threads"] == "2"


@pytest.mark.parametrize(
    ("value", "written"),
    [("a b", "a b"), (" a", "\\ a"), ("a\\b", "a\\\\b"), ("a\nb", "a\\nb"), ("é", "\\u00e9"), ("😀", "\\ud83d\\ude00")],
)
def test_property_values_are_escaped_for_java(value: str, written: str) -> None:
    assert render({"k": value}) == f"k={written}\n"


def test_property_keys_are_escaped_for_java() -> None:
    assert render({"a b=c:d": "1"}) == "a\\ b\\=c\\:d=1\n"


def test_formatted_node_directory_keeps_its_identity(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.write_bytes(b"features")
    node = NodeDirectory(tmp_path / "node")
    node.prepare(snapshot, {"a": "1"})
    identity = (node.data / "meta.properties").read_text()
    node.prepare(snapshot, {"a": "2"})
    assert (node.data / "meta.properties").read_text() == identity
    assert node.settings.read_text() == "a=2\n"


def test_chosen_ports_are_distinct_and_keep_the_requested_one() -> None:
    assert len({*vars(choose_ports()).values()}) == 3
    with reserved_port() as probe:  # so that no other process of tests gets it meanwhile
        port = probe.getsockname()[1]
        assert choose_ports(port).client == port


def test_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {port} is in use"):
            choose_ports(port)


def test_embedded_kafka_that_was_not_started_refuses_access_with_advice() -> None:
    kafka = EmbeddedKafka()
    with pytest.raises(EmbeddedKafkaError, match=r"call start\(\)"):
        _ = kafka.bootstrap_servers
    with pytest.raises(EmbeddedKafkaError, match=r"call start\(\)"):
        _ = kafka.pid
    kafka.stop()


def test_controller_without_a_broker_has_no_client_listener() -> None:
    settings = controller_settings(Path("data"), Ports(1, 2, 3))
    assert settings["process.roles"] == "controller"
    assert settings["listeners"] == "CONTROLLER://127.0.0.1:3"
    assert not {"advertised.listeners", "inter.broker.listener.name"} & settings.keys()
    assert settings["node.id"] == server_settings(Path("data"), Ports(1, 2, 3), {})["node.id"]


def test_node_was_killed_if_it_has_metadata_and_no_clean_shutdown_mark(tmp_path: Path) -> None:
    directory = NodeDirectory(tmp_path)
    assert not directory.was_killed
    (directory.data / "__cluster_metadata-0").mkdir(parents=True)
    assert directory.was_killed
    (directory.data / ".kafka_cleanshutdown").touch()
    assert not directory.was_killed
