"""The list of rights: what is required, what comes along, what is only missed."""

from dataclasses import replace

from fencepost.cli.cluster.rights import Acl, ClientIdentity, ConnectorAccess, Need, WorkerAccess, required_acls

WORKER = ClientIdentity("k:9093", "User:worker")
PRODUCER = ClientIdentity("k:9093", "User:producer")
ADMIN = ClientIdentity("k:9093", "User:admin")
CONSUMER = ClientIdentity("k:9093", "User:consumer")
WORKERS = WorkerAccess(WORKER, "g", "configs", "offsets", "status")
CONNECTOR = ConnectorAccess("c", PRODUCER, ADMIN, CONSUMER, offsets_topic="offsets", topics=("data",))


def rights(acls: tuple[Acl, ...], need: Need, principal: str) -> set[str]:
    """Return what a principal is granted, as `Write topic data`."""
    return {
        f"{a.operation.value} {a.resource.value} {a.name}{'*' * a.is_prefix}"
        for a in acls
        if a.need is need and a.access.principal == principal
    }


def test_worker_needs_rights_on_group_internal_topics_and_leader_id() -> None:
    assert rights(required_acls(WORKERS), Need.REQUIRED, "User:worker") == {
        "Read group g",
        "Write transactional-id connect-cluster-g",
        "Read topic configs",
        "Write topic configs",
        "Create topic configs",
        "Read topic offsets",
        "Create topic offsets",
        "Read topic status",
        "Write topic status",
        "Create topic status",
    }


def test_rights_that_the_broker_implies_are_listed_as_implied() -> None:
    assert rights(required_acls(WORKERS), Need.IMPLIED, "User:worker") == {
        "Describe group g",
        "Describe transactional-id connect-cluster-g",
        "Describe topic configs",
        "Describe topic offsets",
        "Describe topic status",
        "IdempotentWrite cluster kafka-cluster",
    }


def test_source_connector_needs_task_ids_its_topics_and_the_offsets_topic() -> None:
    found = required_acls(WORKERS, [replace(CONNECTOR, tasks=2)])
    assert rights(found, Need.REQUIRED, "User:producer") == {
        "Write transactional-id g-c-0",
        "Write transactional-id g-c-1",
        "Write topic data",
        "Write topic offsets",
    }
    assert rights(found, Need.OPTIONAL, "User:producer") == {
        "Write transactional-id g-c-0#1",
        "Write transactional-id g-c-1#1",
    }
    assert rights(found, Need.REQUIRED, "User:admin") == set()
    assert rights(found, Need.REQUIRED, "User:consumer") == set()


def test_connector_with_one_lane_needs_no_second_transactional_id() -> None:
    found = required_acls(WORKERS, [replace(CONNECTOR, lanes=1)])
    assert rights(found, Need.OPTIONAL, "User:producer") == set()


def test_prefixed_transactional_id_covers_all_tasks_and_both_lanes() -> None:
    found = required_acls(WORKERS, [replace(CONNECTOR, tasks=9, is_prefixed=True)])
    assert rights(found, Need.REQUIRED, "User:producer") == {
        "Write transactional-id g-c-*",
        "Write topic data",
        "Write topic offsets",
    }


def test_without_exactly_once_only_the_leader_needs_a_transactional_id() -> None:
    found = required_acls(WORKERS, [replace(CONNECTOR, is_exactly_once=False)])
    assert rights(found, Need.REQUIRED, "User:producer") == {"Write topic data", "Write topic offsets"}
    assert "Write transactional-id connect-cluster-g" in rights(found, Need.REQUIRED, "User:worker")


def test_connectors_own_clients_need_create_and_read_on_its_offsets_topic() -> None:
    found = required_acls(WORKERS, [replace(CONNECTOR, offsets_topic="own", has_own_offsets=True)])
    assert rights(found, Need.REQUIRED, "User:admin") == {"Create topic own", "Describe topic own"}
    assert rights(found, Need.REQUIRED, "User:consumer") == {"Read topic own"}
    assert "Write topic own" in rights(found, Need.REQUIRED, "User:producer")
    assert "Write topic offsets" in rights(found, Need.REQUIRED, "User:worker")


def test_topic_creation_needs_create_for_the_connectors_admin() -> None:
    found = required_acls(WORKERS, [replace(CONNECTOR, creates_topics=True)])
    assert rights(found, Need.REQUIRED, "User:admin") == {"Create topic data", "Describe topic data"}


def test_single_principal_for_all_clients_gets_each_right_once() -> None:
    own = ConnectorAccess("c", WORKER, WORKER, WORKER, "own", ("data",), has_own_offsets=True, creates_topics=True)
    found = required_acls(WORKERS, [own])
    assert len({(a.target, a.operation) for a in found}) == len(found)
    assert "Describe topic own" in rights(found, Need.IMPLIED, "User:worker")
    assert {"Read topic own", "Write topic own", "Create topic own"} <= rights(found, Need.REQUIRED, "User:worker")


def test_rights_on_another_cluster_are_listed_separately() -> None:
    elsewhere = ClientIdentity("other:9093", "User:worker")
    own = ConnectorAccess("c", elsewhere, elsewhere, elsewhere, "offsets", ("data",), has_own_offsets=True)
    found = required_acls(WORKERS, [own])
    clusters = [a.access.cluster for a in found]
    assert clusters == sorted(clusters)
    there = {(a.operation.value, a.name) for a in found if a.access == elsewhere and a.need is Need.REQUIRED}
    assert there == {
        ("Write", "g-c-0"), ("Write", "data"), ("Write", "offsets"), ("Read", "offsets"), ("Create", "offsets")
    }  # fmt: skip
